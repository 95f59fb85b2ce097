#include "scheduler/planning/depths.h"

#include <algorithm>
#include <limits>
#include <set>
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

absl::StatusOr<Candidate> AtDepth(const Candidate& candidate, int depth) {
  Layout layout = candidate.layout;
  layout.in_flight = depth;
  return JudgeLayout(*candidate.planner, std::move(layout));
}

}  // namespace

absl::StatusOr<Candidate> WithBestDepth(const Candidate& candidate) {
  if (candidate.layout.cuts.size() < 2) return candidate;
  std::vector<Candidate> tried;
  double shortest = std::numeric_limits<double>::infinity();
  absl::Status first_error;
  for (const int depth : DepthsToTry(candidate)) {
    absl::StatusOr<Candidate> at = AtDepth(candidate, depth);
    if (absl::IsInvalidArgument(at.status())) {
      first_error.Update(at.status());
      continue;
    }
    RETURN_IF_ERROR(at.status());
    const absl::Status fits = CheckMemory(*at->planner, at->layout);
    if (!fits.ok()) {
      first_error.Update(fits);
      continue;
    }
    shortest = std::min(shortest, at->step_seconds());
    tried.push_back(*std::move(at));
  }
  for (Candidate& each : tried) {
    if (each.step_seconds() <= kSameStep * shortest) return std::move(each);
  }
  return first_error;
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
