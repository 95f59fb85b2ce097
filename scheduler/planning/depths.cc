#include "scheduler/planning/depths.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "proto/status_macros.h"
#include "scheduler/planning/to_plan.h"

namespace pipework {
namespace {

// Steps closer than this are as good as equal.
constexpr double kSameStep = 1.01;
constexpr int kMostDepths = 12;
constexpr int kManyDevices = 64;

int NoamOf(const Candidate& candidate) {
  Layout layout = candidate.layout;
  layout.in_flight = 0;
  return RoundsInFlight(ShapeOfLayout(candidate.planner->work, layout));
}

// The depth that the candidate really has.
int OwnDepth(const Candidate& candidate) {
  return RoundsInFlight(
      ShapeOfLayout(candidate.planner->work, candidate.layout));
}

bool SameButDepth(const Candidate& a, const Candidate& b) {
  return a.planner == b.planner && a.layout.cuts == b.layout.cuts &&
         a.layout.seats == b.layout.seats && a.layout.shares == b.layout.shares;
}

absl::StatusOr<Candidate> AtDepth(const Candidate& candidate, int depth) {
  Layout layout = candidate.layout;
  layout.in_flight = depth;
  return JudgeLayout(*candidate.planner, std::move(layout));
}

}  // namespace

std::set<int> DepthsToTry(const Candidate& candidate) {
  const int noam = NoamOf(candidate);
  std::set<int> depths = {noam, 2 * noam};
  if (candidate.planner->pool.size() > kManyDevices) return depths;
  depths.insert(1);
  depths.insert((noam + 1) / 2);
  const int room = kMostDepths - static_cast<int>(depths.size());
  const int step = std::max(1, (noam + room - 1) / room);
  for (int d = noam + 1; d < 2 * noam; d += step) depths.insert(d);
  return depths;
}

absl::StatusOr<std::vector<Candidate>> AtDepthsThatFit(
    const Candidate& candidate) {
  if (candidate.layout.cuts.size() < 2) {
    return std::vector<Candidate>{candidate};
  }
  std::vector<Candidate> tried;
  for (const int depth : DepthsToTry(candidate)) {
    absl::StatusOr<Candidate> at = AtDepth(candidate, depth);
    if (absl::IsInvalidArgument(at.status())) continue;
    RETURN_IF_ERROR(at.status());
    if (!CheckMemory(*at->planner, at->layout).ok()) continue;
    tried.push_back(*std::move(at));
  }
  return tried;
}

void RankDepths(std::vector<Candidate>* candidates) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : *candidates) {
    shortest = std::min(shortest, candidate.step_seconds());
  }
  Rank(candidates);
  // Of each layout the shallowest that is as fast as its best.
  std::vector<Candidate> kept;
  std::vector<double> limits;
  for (Candidate& candidate : *candidates) {
    const auto known = std::find_if(
        kept.begin(), kept.end(),
        [&](const Candidate& other) { return SameButDepth(candidate, other); });
    if (known == kept.end()) {
      const double best = candidate.step_seconds();
      limits.push_back(best <= kSameStep * shortest ? kSameStep * shortest
                                                    : kSameStep * best);
      kept.push_back(std::move(candidate));
    } else if (candidate.step_seconds() <= limits[known - kept.begin()] &&
               OwnDepth(candidate) < OwnDepth(*known)) {
      *known = std::move(candidate);
    }
  }
  *candidates = std::move(kept);
}

absl::StatusOr<std::vector<v1::Depth>> DepthsOf(const Candidate& candidate) {
  const int own = OwnDepth(candidate);
  std::set<int> tried = DepthsToTry(candidate);
  tried.insert(own);
  std::vector<v1::Depth> depths;
  for (const int depth : tried) {
    absl::StatusOr<Candidate> at =
        depth == own ? candidate : AtDepth(candidate, depth);
    // Some schedules fix what is in flight, or ask for microbatches for it.
    if (absl::IsInvalidArgument(at.status())) continue;
    RETURN_IF_ERROR(at.status());
    const v1::Plan plan = ToPlan(*at);
    v1::Depth out;
    out.set_in_flight(depth);
    out.set_predicted_step_ms(plan.predicted_step_ms());
    out.set_staleness(LargestStaleness(plan));
    out.set_largest_bytes(LargestBytes(plan));
    out.set_feasible(CheckMemory(*at->planner, at->layout).ok());
    depths.push_back(std::move(out));
  }
  return depths;
}

}  // namespace pipework
