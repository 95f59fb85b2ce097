#include "scheduler/planning/candidates.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "partitioner/algorithms/fixed_stages.h"
#include "partitioner/algorithms/pipedream_dp.h"
#include "proto/status_macros.h"
#include "scheduler/planning/cut_mover.h"
#include "scheduler/planning/memory.h"
#include "scheduler/planning/mixed_layouts.h"
#include "scheduler/planning/words.h"

namespace pipework {
namespace {

// Most steps of the partitioner for each of several numbers of devices.
constexpr double kManyCells = 2e7;
constexpr int kMostStages = 16;
// Longer chains are cut between groups of layers, about so many; and no fewer
// than so many for each stage.
constexpr int kManyLayers = 1000;
constexpr int kGroupsOfStage = 8;
// Steps closer than this are as good as equal.
constexpr double kSameStep = 1.01;
// So many ways to cut and replicate are all looked at.
constexpr double kFewWays = 2000;
// Most simulations of one job, by the number of its devices.
constexpr size_t kMostSimulated = 48;
constexpr size_t kMostSimulatedOnMany = 6;
constexpr int kManyDevices = 64;

bool SharesCores(const DevicePool& pool) {
  return std::any_of(
      pool.groups.begin(), pool.groups.end(), [](const CoreGroup& group) {
        return static_cast<double>(group.devices.size()) > group.cores;
      });
}

std::vector<SeatRequest> Requests(const Workload& work, const DevicePool& pool,
                                  const std::vector<StageCut>& cuts,
                                  const Pins& pins) {
  std::vector<SeatRequest> requests;
  const int units = work.UnitsOf(
      RoundUnits(cuts[0].replicas,
                 pins.shares.empty() ? std::vector<int>() : pins.shares[0]));
  for (size_t s = 0; s < cuts.size(); ++s) {
    SeatRequest request;
    request.seconds =
        work.ComputeSeconds(cuts[s].first, cuts[s].last) / cuts[s].replicas;
    request.replicas = cuts[s].replicas;
    if (work.mixed()) {
      request.kind_seconds.assign(pool.kinds.size(), 0);
      for (int d = pool.size() - 1; d >= 0; --d) {
        request.kind_seconds[pool.devices[d].kind] =
            request.seconds * work.ScaleOf(cuts[s].first, cuts[s].last, d);
      }
    }
    if (!pins.devices.empty()) request.pinned = pins.devices[s];
    if (s > 0) {
      const double bytes = work.CutBytes(cuts[s].first - 1) / units;
      const double messages = 2.0 * units;
      request.near_seconds = messages * MessageWork(pool.within_node, bytes);
      request.apart_seconds = messages * MessageWork(pool.between_nodes, bytes);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

PartitionInput InputOf(const Planner& planner, const Link& link, int workers,
                       double slowdown) {
  const Workload& work = planner.work;
  PartitionInput input;
  for (int l = 0; l < work.chain.size(); ++l) {
    input.layer_seconds.push_back(work.LayerSeconds(l) * slowdown);
    input.weight_bytes.push_back(work.WeightBytes(l));
    input.cut_bytes.push_back(work.CutBytes(l));
  }
  input.levels = {{workers, link}};
  input.cost_model = &planner.model;
  const int64_t limit = planner.pool.LargestMemory();
  if (limit > 0) {
    const HoldsFn holds = HoldsFor(work);
    input.fits = [&planner, holds, limit, workers](int first, int last,
                                                   int before, int replicas) {
      return MemoryOf(planner.work.chain, first, last,
                      holds(workers, before, replicas), planner.optimizer)
                 .total() <= limit;
    };
  }
  return input;
}

// The last layer of each of about `groups` groups, which are alike in seconds.
std::vector<int> GroupEnds(const Workload& work, int groups) {
  const int layers = work.chain.size();
  const double part = work.ComputeSeconds(0, layers - 1) / groups;
  // The longest too, where layers that take no time would be one.
  const int longest = 2 * layers / groups;
  std::vector<int> ends;
  double seconds = 0;
  int first = 0;
  for (int l = 0; l < layers; ++l) {
    seconds += work.LayerSeconds(l);
    const bool full = seconds >= part || l - first + 1 >= longest;
    if (!full && l + 1 < layers) continue;
    ends.push_back(l);
    seconds = 0;
    first = l + 1;
  }
  return ends;
}

// `input` with each group as one layer. Its `fits` still asks about layers.
PartitionInput Grouped(const PartitionInput& input,
                       const std::vector<int>& ends) {
  PartitionInput out = input;
  out.layer_seconds.clear();
  out.weight_bytes.clear();
  out.cut_bytes.clear();
  int first = 0;
  for (const int end : ends) {
    double seconds = 0;
    double weights = 0;
    for (int l = first; l <= end; ++l) {
      seconds += input.layer_seconds[l];
      weights += input.weight_bytes[l];
    }
    out.layer_seconds.push_back(seconds);
    out.weight_bytes.push_back(weights);
    out.cut_bytes.push_back(input.cut_bytes[end]);
    first = end + 1;
  }
  if (input.fits) {
    out.fits = [fits = input.fits, ends](int first_group, int last_group,
                                         int before, int replicas) {
      const int from = first_group == 0 ? 0 : ends[first_group - 1] + 1;
      return fits(from, ends[last_group], before, replicas);
    };
  }
  return out;
}

using PartitionFn = absl::StatusOr<Partition> (*)(const PartitionInput& input);

// What `partitioner` cuts; a chain too long for it between groups of layers,
// unless that finds nothing.
absl::StatusOr<std::vector<StageCut>> CutsBy(PartitionFn partitioner,
                                             const Planner& planner,
                                             const PartitionInput& input) {
  const int groups = std::max(kManyLayers, kGroupsOfStage * input.stages);
  if (planner.work.chain.size() > groups) {
    const std::vector<int> ends = GroupEnds(planner.work, groups);
    absl::StatusOr<Partition> partition = partitioner(Grouped(input, ends));
    if (partition.ok()) {
      for (StageCut& cut : partition->workers) {
        cut.first = cut.first == 0 ? 0 : ends[cut.first - 1] + 1;
        cut.last = ends[cut.last];
      }
      return partition->workers;
    }
  }
  ASSIGN_OR_RETURN(const Partition partition, partitioner(input));
  return partition.workers;
}

const Link& JoiningLink(const DevicePool& pool, int workers) {
  return pool.nodes.size() > 1 && workers > 1 ? pool.between_nodes
                                              : pool.within_node;
}

// How much each of `workers` equal stages is slowed by sharing cores.
absl::StatusOr<double> SlowdownOf(const Planner& planner, int workers) {
  if (!SharesCores(planner.pool)) return 1.0;
  std::vector<SeatRequest> requests(workers);
  for (SeatRequest& request : requests) request.seconds = 1;
  ASSIGN_OR_RETURN(const auto seats,
                   AssignSeats(planner.pool, requests, planner.data_nodes));
  std::vector<int> all;
  for (const std::vector<int>& stage : seats) {
    all.insert(all.end(), stage.begin(), stage.end());
  }
  return planner.pool.Slowdown(all);
}

// The partitioner's cuts for exactly `stages` stages; without the memory limit
// where none fits: SeatCuts then says which stage is too big.
absl::StatusOr<std::vector<StageCut>> CutsFor(
    const Planner& planner, int stages, int workers,
    const std::vector<int>& replicas) {
  ASSIGN_OR_RETURN(const double slowdown, SlowdownOf(planner, workers));
  PartitionInput input =
      InputOf(planner, JoiningLink(planner.pool, workers), workers, slowdown);
  input.stages = stages;
  input.replicas = replicas;
  auto cuts = CutsBy(&FixedStages, planner, input);
  if (!cuts.ok() && input.fits) {
    input.fits = nullptr;
    cuts = CutsBy(&FixedStages, planner, input);
  }
  return cuts;
}

// The numbers of devices to try for `stages` stages.
std::vector<int> WorkersToTry(const Planner& planner, int stages) {
  const int devices = planner.pool.size();
  const double layers = planner.work.chain.size();
  const bool heavy = stages * layers * layers * devices * devices > kManyCells;
  std::set<int> tried = {stages, devices};
  if (!heavy && planner.near_stages == 0) {
    for (int m = stages; m <= devices; ++m) {
      if (devices <= 8 || m == stages || m % 4 == 0) tried.insert(m);
    }
  }
  return {tried.begin(), tried.end()};
}

// How many pipelines of `layers` layers there are on up to `devices` devices.
double Ways(int layers, int devices) {
  double ways = 0;
  double cuts = 1;  // C(layers - 1, stages - 1)
  for (int stages = 1; stages <= std::min(layers, devices); ++stages) {
    // C(devices, stages): replicas of stages on up to so many devices.
    double replicas = 1;
    for (int i = 0; i < stages; ++i) replicas *= (devices - i) / (i + 1.0);
    ways += cuts * replicas;
    cuts *= (layers - stages) / static_cast<double>(stages);
  }
  return ways;
}

// Every pipeline of layers `first` and on over up to `devices` devices.
void Enumerate(int layers, int first, int devices, int stages,
               std::vector<StageCut>* cuts,
               std::vector<std::vector<StageCut>>* out) {
  for (int last = first; last < layers; ++last) {
    for (int replicas = 1; replicas <= devices; ++replicas) {
      cuts->push_back({first, last, replicas});
      if (last + 1 == layers) {
        out->push_back(*cuts);
      } else if (stages > 1 && replicas < devices) {
        Enumerate(layers, last + 1, devices - replicas, stages - 1, cuts, out);
      }
      cuts->pop_back();
    }
  }
}

// Even stages of `replicas` devices each.
std::vector<StageCut> EvenlyReplicated(const Planner& planner, int stages,
                                       int replicas) {
  PartitionInput input =
      InputOf(planner, JoiningLink(planner.pool, stages), stages, 1);
  input.fits = nullptr;
  input.straight = true;
  absl::StatusOr<std::vector<StageCut>> cuts =
      CutsBy(&PipedreamDp, planner, input);
  if (!cuts.ok()) return {{0, planner.work.chain.size() - 1, replicas}};
  for (StageCut& cut : *cuts) cut.replicas = replicas;
  return *std::move(cuts);
}

// What the partitioner proposes for automatic stages, and for a small job every
// way there is.
std::vector<std::vector<StageCut>> AutomaticCuts(const Planner& planner,
                                                 const Pins& pins,
                                                 absl::Status* error) {
  const int layers = planner.work.chain.size();
  const int devices = planner.pool.size();
  int most = std::min({devices, layers, kMostStages});
  if (pins.max_stages > 0) most = std::min(most, pins.max_stages);
  std::vector<std::vector<StageCut>> all;
  if (!SharesCores(planner.pool) && Ways(layers, devices) <= kFewWays) {
    std::vector<StageCut> cuts;
    Enumerate(layers, 0, devices, most, &cuts, &all);
    return all;
  }
  // The recurrences over the levels of the cluster, as many stages as are best.
  PartitionInput input =
      InputOf(planner, JoiningLink(planner.pool, devices), devices, 1);
  input.levels = LevelsOf(planner.pool);
  input.max_stages = pins.max_stages;
  input.straight = pins.straight;
  if (input.levels.size() > 1) input.fits = nullptr;  // seats are checked
  auto best = CutsBy(&PipedreamDp, planner, input);
  if (best.ok()) all.push_back(*std::move(best));
  if (devices > kManyDevices) {
    for (int stages = 1; stages <= most; stages *= 2) {
      const int replicas = pins.straight ? 1 : devices / stages;
      all.push_back(EvenlyReplicated(planner, stages, replicas));
    }
    return all;
  }
  const int near = planner.near_stages;
  for (int stages = most; stages >= 1; --stages) {
    if (near > 0 && std::abs(stages - near) > 1 && stages > 1) continue;
    for (const int workers : WorkersToTry(planner, stages)) {
      if (workers < stages || (pins.straight && workers != stages)) continue;
      auto cuts = CutsFor(planner, stages, workers, {});
      if (cuts.ok()) {
        all.push_back(*std::move(cuts));
      } else {
        error->Update(cuts.status());
      }
    }
  }
  return all;
}

bool IsStraight(const std::vector<StageCut>& cuts) {
  return std::all_of(cuts.begin(), cuts.end(),
                     [](const StageCut& cut) { return cut.replicas == 1; });
}

// Seconds below which no seats bring `cuts`, but for faster devices.
double QuickSeconds(const Workload& work, const std::vector<StageCut>& cuts) {
  double slowest = 0;
  for (const StageCut& cut : cuts) {
    slowest = std::max(slowest,
                       work.ComputeSeconds(cut.first, cut.last) / cut.replicas);
  }
  return slowest;
}

}  // namespace

absl::Status CheckMemory(const Planner& planner, const Layout& layout,
                         double* over) {
  const PipelineShape shape = ShapeOfLayout(planner.work, layout);
  absl::Status tightest;
  double furthest = 1;
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    const StageId stage{static_cast<int>(s)};
    const Holds holds = HoldsOf(planner.work, shape, stage);
    const StageCut& cut = layout.cuts[s];
    const int64_t needed = MemoryOf(planner.work.chain, cut.first, cut.last,
                                    holds, planner.optimizer)
                               .total();
    for (const int seat : layout.seats[s]) {
      const PooledDevice& device = planner.pool.devices[seat];
      if (device.memory_bytes == 0) continue;
      const double part = static_cast<double>(needed) /
                          static_cast<double>(device.memory_bytes);
      if (part <= furthest) continue;
      furthest = part;
      tightest = absl::FailedPreconditionError(absl::StrCat(
          "plan: stage ", s, " on ", device.name, " needs ", BytesText(needed),
          " with ", CountText(holds.versions, "weight version"), " and ",
          CountText(holds.activations, "unit"), " in flight, expected at most ",
          BytesText(device.memory_bytes)));
    }
  }
  if (over != nullptr) *over = furthest;
  return tightest;
}

absl::StatusOr<Layout> SeatCuts(const Planner& planner,
                                const std::vector<StageCut>& cuts,
                                const Pins& pins, double* over) {
  Layout layout;
  layout.cuts = cuts;
  layout.in_flight = planner.work.in_flight;
  layout.shares = pins.shares;
  const std::vector<SeatRequest> requests =
      Requests(planner.work, planner.pool, cuts, pins);
  ASSIGN_OR_RETURN(layout.seats,
                   AssignSeats(planner.pool, requests, planner.data_nodes));
  RETURN_IF_ERROR(CheckMemory(planner, layout, over));
  return layout;
}

absl::StatusOr<Candidate> JudgeLayout(const Planner& planner, Layout layout) {
  Candidate candidate;
  candidate.planner = &planner;
  candidate.layout = std::move(layout);
  ASSIGN_OR_RETURN(candidate.prediction,
                   Predict(planner.work, planner.pool, candidate.layout));
  return candidate;
}

absl::StatusOr<Candidate> Judge(const Planner& planner,
                                const std::vector<StageCut>& cuts,
                                const Pins& pins) {
  ASSIGN_OR_RETURN(Layout layout, SeatCuts(planner, cuts, pins));
  return JudgeLayout(planner, std::move(layout));
}

absl::StatusOr<Candidate> CandidateOf(const Planner& planner, int stages,
                                      int workers) {
  Pins pins;
  pins.stage_count = stages;
  pins.replicas.assign(stages, 1);
  if (workers != stages) {
    ASSIGN_OR_RETURN(const std::vector<StageCut> cuts,
                     CutsFor(planner, stages, workers, {}));
    return Judge(planner, cuts);
  }
  ASSIGN_OR_RETURN(std::vector<Candidate> candidates,
                   Candidates(planner, pins, 1));
  return std::move(candidates[0]);
}

absl::StatusOr<std::vector<Layout>> Proposals(const Planner& planner,
                                              const Pins& pins) {
  absl::Status first_error;
  std::vector<std::vector<StageCut>> cuts;
  const auto add = [&](absl::StatusOr<std::vector<StageCut>> more) {
    if (more.ok()) {
      cuts.push_back(*std::move(more));
    } else {
      first_error.Update(more.status());
    }
  };
  if (!pins.cuts.empty()) {
    cuts.push_back(pins.cuts);
  } else if (!pins.replicas.empty()) {
    const int workers =
        std::accumulate(pins.replicas.begin(), pins.replicas.end(), 0);
    add(CutsFor(planner, pins.stage_count, workers, pins.replicas));
  } else if (pins.stage_count > 0) {
    // A number means one replica of each: replicas change what is trained, so
    // they are asked for by name or with `auto`.
    add(CutsFor(planner, pins.stage_count, pins.stage_count,
                std::vector<int>(pins.stage_count, 1)));
  } else {
    cuts = AutomaticCuts(planner, pins, &first_error);
    if (pins.straight) {
      cuts.erase(std::remove_if(cuts.begin(), cuts.end(),
                                [](const std::vector<StageCut>& each) {
                                  return !IsStraight(each);
                                }),
                 cuts.end());
    }
  }

  // The most hopeful first; of those that are alike in that, the largest, since
  // its memory is spread furthest.
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < cuts.size(); ++i) {
    order.emplace_back(QuickSeconds(planner.work, cuts[i]), i);
  }
  std::stable_sort(
      order.begin(), order.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  const bool shares = SharesCores(planner.pool);
  double nearest = std::numeric_limits<double>::infinity();
  absl::Status nearest_limit;
  std::vector<Layout> layouts;
  const auto keep = [&layouts](Layout layout) {
    for (const Layout& known : layouts) {
      if (known.cuts == layout.cuts && known.seats == layout.seats &&
          known.shares == layout.shares) {
        return;
      }
    }
    layouts.push_back(std::move(layout));
  };
  // Where devices differ: what the partitioner for that says.
  for (Layout& layout :
       MixedLayouts(planner.work, planner.pool, planner.optimizer, pins,
                    planner.data_nodes)) {
    if (CheckMemory(planner, layout).ok()) keep(std::move(layout));
  }
  for (const auto& [seconds, i] : order) {
    if (layouts.size() >= 4 * kMostSimulated) break;
    double over = 0;
    absl::StatusOr<Layout> layout = SeatCuts(planner, cuts[i], pins, &over);
    if (!layout.ok()) {
      first_error.Update(layout.status());
      if (over > 1 && over < nearest) {
        nearest = over;
        nearest_limit = layout.status();
      }
      continue;
    }
    if (shares && pins.cuts.empty()) {
      const std::vector<StageCut> moved =
          MoveCuts(planner.work, planner.pool, layout->cuts, layout->seats);
      absl::StatusOr<Layout> other = SeatCuts(planner, moved, pins);
      if (other.ok()) keep(*std::move(other));
    }
    if (planner.work.mixed() && pins.shares.empty()) {
      Layout uneven = *layout;
      uneven.shares = SharesOf(planner.work, uneven);
      if (!uneven.shares.empty() && CheckMemory(planner, uneven).ok()) {
        keep(std::move(uneven));
      }
    }
    keep(*std::move(layout));
  }
  if (layouts.empty()) {
    return nearest_limit.ok() ? first_error : nearest_limit;
  }
  return layouts;
}

absl::StatusOr<std::vector<Candidate>> Candidates(const Planner& planner,
                                                  const Pins& pins,
                                                  int wanted) {
  ASSIGN_OR_RETURN(std::vector<Layout> layouts, Proposals(planner, pins));
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < layouts.size(); ++i) {
    order.emplace_back(LeastSeconds(planner.work, planner.pool, layouts[i]), i);
  }
  std::stable_sort(
      order.begin(), order.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });

  const size_t most = planner.pool.size() > kManyDevices ? kMostSimulatedOnMany
                                                         : kMostSimulated;
  std::vector<Candidate> candidates;
  absl::Status first_error;
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& [least, i] : order) {
    const bool enough = static_cast<int>(candidates.size()) >= wanted;
    if (enough && (least > kSameStep * shortest || candidates.size() >= most)) {
      break;
    }
    absl::StatusOr<Candidate> candidate =
        JudgeLayout(planner, std::move(layouts[i]));
    if (!candidate.ok()) {
      first_error.Update(candidate.status());
      continue;
    }
    shortest = std::min(shortest, candidate->step_seconds());
    candidates.push_back(*std::move(candidate));
  }
  if (candidates.empty()) return first_error;
  Rank(&candidates);
  return candidates;
}

void Rank(std::vector<Candidate>* candidates) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : *candidates) {
    shortest = std::min(shortest, candidate.step_seconds());
  }
  const auto rank = [shortest](const Candidate& candidate) {
    const double step = candidate.step_seconds();
    const bool as_good = step <= kSameStep * shortest;
    return std::make_tuple(!as_good, as_good ? candidate.layout.devices() : 0,
                           as_good ? candidate.layout.cuts.size() : 0, step);
  };
  std::stable_sort(candidates->begin(), candidates->end(),
                   [&rank](const Candidate& a, const Candidate& b) {
                     return rank(a) < rank(b);
                   });
}

}  // namespace pipework
