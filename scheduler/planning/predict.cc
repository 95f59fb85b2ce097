#include "scheduler/planning/predict.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "proto/status_macros.h"
#include "scheduler/compile.h"
#include "scheduler/passes/row_peaks.h"
#include "scheduler/passes/simulate.h"
#include "scheduler/passes/steady_state.h"
#include "scheduler/planning/link_loads.h"

namespace pipework {
namespace {

// From so many rows on the simulated window is as short as it can be.
constexpr int kManyRows = 64;
// A longest round of updates that the window holds whole.
constexpr int64_t kLongestRound = 256;
// Units of each replica that a timeline shows.
constexpr int kDrawnRounds = 4;
// Up to so many times NOAM the simulation is as deep as is asked for; beyond,
// so many times what Little's law asks for is deep enough.
constexpr int kDeep = 16;
constexpr double kSlack = 4;

// Minibatches to simulate, and the window of them in which the pipe is full.
struct Window {
  int64_t minibatches = 0;
  int64_t begin = 0;  // minibatch whose end opens the window
  int64_t end = 0;    // minibatch whose end closes it
};

Window SteadyWindow(const PipelineShape& shape, bool unit_is_microbatch,
                    bool synchronous, int accumulate) {
  if (unit_is_microbatch && !synchronous) {
    // The pipe fills within the first update, and empties within the last.
    return {6 * int64_t{accumulate}, 2 * accumulate - 1, 5 * accumulate - 1};
  }
  if (unit_is_microbatch) {
    // Every group of minibatches is like the one before.
    return {3 * int64_t{accumulate}, accumulate - 1, 3 * accumulate - 1};
  }
  int64_t round = accumulate;  // of updates of all stages
  int64_t longest = accumulate;
  for (int s = 0; s < shape.stages(); ++s) {
    longest = std::max(longest, int64_t{shape.round(StageId{s})} * accumulate);
    round = std::lcm(round, int64_t{shape.round(StageId{s})} * accumulate);
    if (round > kLongestRound) break;
  }
  if (round > kLongestRound) {
    // Whole rounds of the stage with most replicas, which leave together.
    for (int s = 0; s < shape.stages(); ++s) {
      longest =
          std::max(longest, int64_t{shape.round(StageId{s})} * accumulate);
    }
    round = longest * std::max<int64_t>(1, kLongestRound / longest);
  }
  const int64_t depth =
      int64_t{RoundsInFlight(shape)} * shape.round(StageId{0});
  const bool many = shape.workers() > kManyRows;
  const int64_t start = (many ? 1 : 2) * depth + round;
  const int64_t rounds =
      many ? 1 : std::max<int64_t>(2, (24 + round - 1) / round);
  return {start + rounds * round + depth + 1, start, start + rounds * round};
}

// What is left of a message's time on `link` once both ends have done their
// work for it, MessageWork.
Link Waiting(const Link& link) {
  Link waiting = link;
  waiting.latency_seconds -= MessageWork({0, link.latency_seconds}, 0);
  if (link.bytes_per_second > 0) {
    const double seconds_per_byte =
        1 / link.bytes_per_second -
        (MessageWork({link.bytes_per_second, 0}, 1) - MessageWork({0, 0}, 1));
    // Memory speed: nothing is left.
    waiting.bytes_per_second =
        seconds_per_byte > 1e-15 ? 1 / seconds_per_byte : 0;
  }
  return waiting;
}

// Messages go over links that all stages share. Where cores copy them, that
// part of their time is the cores'.
void AddMessages(const Workload& work, const DevicePool& pool,
                 const Layout& layout, const PipelineShape& shape,
                 ActionTimes* times) {
  const bool copies =
      std::all_of(pool.groups.begin(), pool.groups.end(),
                  [](const CoreGroup& group) { return group.copies; });
  const std::vector<StageEdge> edges = EdgesOf(shape);
  std::vector<int64_t> bytes = EdgeBytes(work, layout.cuts);
  for (int64_t& each : bytes) each /= work.PartsOf(shape.round(StageId{0}));
  for (size_t e = 0; e < edges.size(); ++e) {
    times->network.forward_bytes.push_back(static_cast<double>(bytes[e]));
    times->network.backward_bytes.push_back(
        edges[e].has_gradient ? static_cast<double>(bytes[e]) : 0);
    if (!copies) continue;
    std::vector<int> ends = layout.seats[edges[e].from.value()];
    const std::vector<int>& to = layout.seats[edges[e].to.value()];
    ends.insert(ends.end(), to.begin(), to.end());
    times->message_seconds.push_back(MessageWork(pool.LinkOf(ends), bytes[e]));
  }
  for (const Link& link : pool.levels) {
    times->network.levels.push_back(copies ? Waiting(link) : link);
  }
  for (const auto& [nodes, link] : pool.node_links) {
    times->network.pairs.push_back(
        {1, nodes.first, nodes.second, copies ? Waiting(link) : link});
  }
  for (const std::vector<int>& stage : layout.seats) {
    for (const int device : stage) {
      std::vector<int> path = {device};
      const std::vector<int>& above = pool.devices[device].path;
      path.insert(path.end(), above.begin(), above.end());
      path.resize(pool.levels.size(), 0);
      times->network.row_path.push_back(std::move(path));
    }
  }
}

ActionTimes TimesOf(const Workload& work, const DevicePool& pool,
                    const Layout& layout, const PipelineShape& shape) {
  ActionTimes times;
  times.action_seconds = work.action_seconds;
  const int parts = work.PartsOf(shape.round(StageId{0}));
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    const StageCut& cut = layout.cuts[s];
    const LayerCost cost = work.chain.CostOf(cut.first, cut.last);
    times.forward_seconds.push_back(cost.forward_seconds / parts);
    times.backward_seconds.push_back(cost.backward_seconds / parts);
    times.update_seconds.push_back(cost.update_seconds);
    times.all_reduce_seconds.push_back(
        RingSeconds(static_cast<double>(cost.parameter_bytes), cut.replicas,
                    pool.LinkOf(layout.seats[s])));
  }
  AddMessages(work, pool, layout, shape, &times);
  for (const CoreGroup& group : pool.groups) {
    times.group_cores.push_back(group.cores);
  }
  for (size_t s = 0; s < layout.seats.size(); ++s) {
    const StageCut& cut = layout.cuts[s];
    for (const int device : layout.seats[s]) {
      times.core_group.push_back(pool.devices[device].group);
      if (!work.paces.empty()) {
        times.row_scale.push_back(work.ScaleOf(cut.first, cut.last, device));
      }
    }
  }
  return times;
}

// By stage, of the first replica.
std::vector<double> Staleness(const Program& program) {
  std::vector<double> staleness;
  for (int s = 0; s < program.shape.stages(); ++s) {
    staleness.push_back(
        PeaksOf(program, program.row(StageId{s}, ReplicaId{0})).staleness);
  }
  return staleness;
}

// A layout on a clock.
struct Run {
  PipelineShape shape;  // at the simulated depth
  Window window;
  Program program;
  Timeline timeline;
  SteadyState steady;  // of the window
};

absl::StatusOr<int> SimulatedDepth(const Workload& work, const DevicePool& pool,
                                   const Layout& layout);

absl::StatusOr<Run> RunOf(const Workload& work, const DevicePool& pool,
                          const Layout& layout) {
  Run run;
  run.shape = ShapeOfLayout(work, layout);
  ASSIGN_OR_RETURN(run.shape.in_flight, SimulatedDepth(work, pool, layout));
  run.window =
      SteadyWindow(run.shape, work.unit_is_microbatch,
                   IsSynchronous(work.recipe.schedule), work.accumulate);
  Segment segment;
  segment.minibatches = run.window.minibatches;
  segment.microbatches =
      work.unit_is_microbatch ? work.UnitsOf(run.shape.round(StageId{0})) : 1;
  segment.accumulate = work.accumulate;
  ASSIGN_OR_RETURN(run.program, Compile(work.recipe, run.shape, segment));
  ASSIGN_OR_RETURN(
      run.timeline,
      Simulate(run.program, TimesOf(work, pool, layout, run.shape)));
  run.steady = SteadyStateBetween(run.program, run.timeline, run.window.begin,
                                  run.window.end);
  return run;
}

// The depth that the simulation takes: from some number in flight on no further
// one changes a step. By Little's law a pipe needs as many as start while one
// is on its way.
absl::StatusOr<int> SimulatedDepth(const Workload& work, const DevicePool& pool,
                                   const Layout& layout) {
  PipelineShape shape = ShapeOfLayout(work, layout);
  const int asked = shape.in_flight;
  shape.in_flight = 0;
  const int deep = kDeep * RoundsInFlight(shape);
  // The depth of microbatches does not lengthen the window.
  if (asked <= deep || work.unit_is_microbatch) return asked;
  Layout alone = layout;
  alone.in_flight = 1;
  ASSIGN_OR_RETURN(const Run run, RunOf(work, pool, alone));
  const double step = run.steady.step_seconds;
  const double least = std::max(LeastSeconds(work, pool, layout),
                                BusiestLinkSeconds(work, pool, layout));
  const double needed = least > 0 ? kSlack * step / least : asked;
  return needed < asked ? std::max(deep, static_cast<int>(needed)) : asked;
}

// By stage, at the depth of `layout`: beyond the simulated one each further
// unit in flight adds as much as those before.
absl::StatusOr<std::vector<double>> StalenessAt(const Workload& work,
                                                const Run& run,
                                                const Layout& layout) {
  std::vector<double> staleness = Staleness(run.program);
  const int simulated = run.shape.in_flight;
  if (layout.in_flight <= simulated) return staleness;
  PipelineShape half = run.shape;
  half.in_flight = simulated / 2;
  ASSIGN_OR_RETURN(const Program program,
                   Compile(work.recipe, half, run.program.segment));
  const std::vector<double> before = Staleness(program);
  for (size_t s = 0; s < staleness.size(); ++s) {
    staleness[s] += (staleness[s] - before[s]) *
                    (layout.in_flight - simulated) /
                    (simulated - half.in_flight);
  }
  return staleness;
}

}  // namespace

absl::StatusOr<PlannedTimeline> TimelineOf(const Workload& work,
                                           const DevicePool& pool,
                                           const Layout& layout) {
  ASSIGN_OR_RETURN(const Run run, RunOf(work, pool, layout));
  std::vector<std::string> devices;
  for (const std::vector<int>& stage : layout.seats) {
    for (const int device : stage) devices.push_back(pool.devices[device].name);
  }
  // Some units of each replica.
  int64_t steps = kDrawnRounds;
  for (int s = 0; s < run.shape.stages(); ++s) {
    steps =
        std::max(steps, int64_t{kDrawnRounds} * run.shape.round(StageId{s}));
  }
  const int64_t first = std::max(run.window.begin, run.window.end - steps);
  const SteadyState shown =
      SteadyStateBetween(run.program, run.timeline, first, run.window.end);
  return PlannedTimeline{LanesOf(run.program, run.timeline, devices),
                         {shown.begin, shown.end}};
}

absl::StatusOr<Prediction> Predict(const Workload& work, const DevicePool& pool,
                                   const Layout& layout) {
  ASSIGN_OR_RETURN(const Run run, RunOf(work, pool, layout));
  const double simulated = run.steady.step_seconds;
  Prediction prediction;
  // A ring is simulated beside the messages, not among them; and a backlog of
  // the start-up can make a window look short.
  prediction.step_seconds =
      std::max({simulated, LeastSeconds(work, pool, layout),
                BusiestLinkSeconds(work, pool, layout)});
  const double stretch =
      simulated > 0 ? prediction.step_seconds / simulated : 1;
  prediction.bubble = 1 - (1 - run.steady.bubble) / stretch;
  prediction.utilisation = run.steady.stage_utilisation;
  for (double& share : prediction.utilisation) share /= stretch;
  ASSIGN_OR_RETURN(prediction.staleness, StalenessAt(work, run, layout));
  return prediction;
}

double LeastSeconds(const Workload& work, const DevicePool& pool,
                    const Layout& layout) {
  const PipelineShape shape = ShapeOfLayout(work, layout);
  std::vector<double> group_seconds(pool.groups.size(), 0);
  double least = 0;
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    const StageCut& cut = layout.cuts[s];
    const double seconds = StageComputeSeconds(work, layout, s);
    const double ring =
        RingSeconds(static_cast<double>(
                        work.chain.CostOf(cut.first, cut.last).parameter_bytes),
                    cut.replicas, pool.LinkOf(layout.seats[s])) /
        work.accumulate;
    // A round of minibatches makes one update; microbatches share theirs.
    const double per_minibatch =
        work.unit_is_microbatch
            ? ring
            : ring / shape.round(StageId{static_cast<int>(s)});
    least = std::max(least, seconds + per_minibatch);
    for (const int device : layout.seats[s]) {
      group_seconds[pool.devices[device].group] += seconds;
    }
  }
  for (size_t g = 0; g < group_seconds.size(); ++g) {
    least = std::max(least, group_seconds[g] / pool.groups[g].cores);
  }
  return least;
}

}  // namespace pipework
