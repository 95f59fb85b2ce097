#include "scheduler/planning/bottleneck.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "partitioner/cost_model.h"

namespace pipework {
namespace {

std::string PairText(const DevicePool& pool, const std::vector<int>& ends) {
  int low = pool.devices[ends[0]].node;
  int high = low;
  for (const int device : ends) {
    low = std::min(low, pool.devices[device].node);
    high = std::max(high, pool.devices[device].node);
  }
  if (low == high) return absl::StrCat("within ", pool.nodes[low]);
  return absl::StrCat(pool.nodes[low], "-", pool.nodes[high]);
}

std::vector<int> EndsOfCut(const Layout& layout, size_t s) {
  std::vector<int> ends = layout.seats[s];
  ends.insert(ends.end(), layout.seats[s + 1].begin(),
              layout.seats[s + 1].end());
  return ends;
}

// A stage and what it exchanges tensors with.
std::vector<int> EndsOfStage(const Layout& layout, size_t s) {
  std::vector<int> ends = layout.seats[s];
  if (s > 0) {
    ends.insert(ends.end(), layout.seats[s - 1].begin(),
                layout.seats[s - 1].end());
  }
  if (s + 1 < layout.seats.size()) {
    ends.insert(ends.end(), layout.seats[s + 1].begin(),
                layout.seats[s + 1].end());
  }
  return ends;
}

// A stage by the cost model: its computing and all-reduce over the link that
// joins its replicas, its messages over the one that joins it with others.
struct StageParts {
  double computing = 0;
  double with_all_reduce = 0;
  double messages = 0;

  double seconds() const { return std::max(with_all_reduce, messages); }
};

StageParts PartsOf(const Planner& planner, const Layout& layout, size_t s,
                   const StageLoad& load) {
  const int replicas = layout.cuts[s].replicas;
  StageLoad inner = load;
  inner.input_bytes = inner.output_bytes = 0;
  StageLoad sending = load;
  sending.compute_seconds = sending.weight_bytes = 0;
  StageParts parts;
  parts.computing = load.compute_seconds / replicas;
  parts.with_all_reduce = planner.model.StageSeconds(
      inner, replicas, planner.pool.LinkOf(layout.seats[s]));
  parts.messages = planner.model.StageSeconds(
      sending, replicas, planner.pool.LinkOf(EndsOfStage(layout, s)));
  return parts;
}

StageLoad LoadOf(const Planner& planner, const Layout& layout, size_t s) {
  const Workload& work = planner.work;
  const StageCut& cut = layout.cuts[s];
  StageLoad load;
  load.compute_seconds = StageComputeSeconds(work, layout, s) * cut.replicas;
  for (int l = cut.first; l <= cut.last; ++l) {
    load.weight_bytes += work.WeightBytes(l);
  }
  if (cut.first > 0) load.input_bytes = work.CutBytes(cut.first - 1);
  load.output_bytes = work.CutBytes(cut.last);
  return load;
}

// Computing per minibatch that each group of cores has to do.
std::vector<double> GroupSeconds(const Planner& planner, const Layout& layout) {
  std::vector<double> seconds(planner.pool.groups.size(), 0);
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    const double own = StageComputeSeconds(planner.work, layout, s);
    for (const int device : layout.seats[s]) {
      const int group = planner.pool.devices[device].group;
      seconds[group] += own / planner.pool.groups[group].cores;
    }
  }
  return seconds;
}

std::vector<double> ModelSeconds(const Planner& planner, const Layout& layout) {
  const DevicePool& pool = planner.pool;
  const std::vector<double> group_seconds = GroupSeconds(planner, layout);
  std::vector<int> busy(pool.groups.size(), 0);
  for (const std::vector<int>& stage : layout.seats) {
    for (const int device : stage) ++busy[pool.devices[device].group];
  }
  std::vector<double> seconds;
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    StageLoad load = LoadOf(planner, layout, s);
    // What shares the stage's cores slows it down, but no longer than that has
    // something to do.
    const double own = load.compute_seconds / layout.cuts[s].replicas;
    double shared = own;
    for (const int device : layout.seats[s]) {
      const int group = pool.devices[device].group;
      const double slowdown =
          std::max(1.0, busy[group] / pool.groups[group].cores);
      shared = std::max(shared, std::min(own * slowdown, group_seconds[group]));
    }
    load.compute_seconds = shared * layout.cuts[s].replicas;
    seconds.push_back(planner.model.StageSeconds(load, layout.cuts[s].replicas,
                                                 pool.LinkOf(layout.seats[s])));
  }
  return seconds;
}

Bottleneck ByModel(const Planner& planner, const Layout& layout) {
  const DevicePool& pool = planner.pool;
  Bottleneck slowest;
  const auto offer = [&slowest](double seconds, std::string where, int stage) {
    // Strictly: what stages share comes before them.
    if (seconds <= slowest.seconds) return;
    slowest = {seconds, std::move(where), stage};
  };
  const std::vector<double> groups = GroupSeconds(planner, layout);
  std::vector<int> busy(pool.groups.size(), 0);
  for (const std::vector<int>& stage : layout.seats) {
    for (const int device : stage) ++busy[pool.devices[device].group];
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    if (busy[g] <= pool.groups[g].cores) continue;
    offer(groups[g], absl::StrCat("cores of ", pool.nodes[pool.groups[g].node]),
          -1);
  }
  const std::vector<double> seconds = ModelSeconds(planner, layout);
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    const int stage = static_cast<int>(s);
    const StageLoad load = LoadOf(planner, layout, s);
    const StageParts parts = PartsOf(planner, layout, s, load);
    if (parts.messages > parts.with_all_reduce) {
      const bool in_front = s > 0 && (s + 1 == layout.cuts.size() ||
                                      load.input_bytes > load.output_bytes);
      offer(seconds[s], PairText(pool, EndsOfCut(layout, s - in_front)), -1);
    } else if (parts.with_all_reduce > 2 * parts.computing) {
      offer(seconds[s], absl::StrCat("all-reduce of stage ", s), stage);
    } else {
      offer(seconds[s], absl::StrCat("stage ", s), stage);
    }
  }
  for (size_t s = 0; s + 1 < layout.cuts.size(); ++s) {
    const std::vector<int> ends = EndsOfCut(layout, s);
    offer(planner.model.CutSeconds(planner.work.CutBytes(layout.cuts[s].last),
                                   pool.LinkOf(ends)),
          PairText(pool, ends), -1);
  }
  return slowest;
}

bool IsOurs(const CostModel& model) {
  const absl::StatusOr<const CostModel*> ours = FindCostModel("pipework");
  return ours.ok() && *ours == &model;
}

}  // namespace

std::vector<double> StageSeconds(const Candidate& candidate) {
  std::vector<double> seconds =
      ModelSeconds(*candidate.planner, candidate.layout);
  if (!IsOurs(candidate.planner->model)) return seconds;
  for (double& each : seconds) each = std::min(each, candidate.step_seconds());
  return seconds;
}

Bottleneck BottleneckOf(const Candidate& candidate) {
  const Planner& planner = *candidate.planner;
  const Bottleneck told = ByModel(planner, candidate.layout);
  const double step = candidate.step_seconds();
  if (!IsOurs(planner.model) || told.seconds <= step) return told;
  const std::vector<double>& busy = candidate.prediction.utilisation;
  const auto most = std::max_element(busy.begin(), busy.end());
  if (most == busy.end()) return told;
  const int stage = static_cast<int>(most - busy.begin());
  return {std::min(step, *most * step), absl::StrCat("stage ", stage), stage};
}

}  // namespace pipework
