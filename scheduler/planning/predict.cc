#include "scheduler/planning/predict.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "proto/status_macros.h"
#include "scheduler/passes/simulate.h"

namespace pipework {
namespace {

// Stages as a plan message, for StageEdges.
v1::Plan CutsAsPlan(const std::vector<StageCut>& cuts) {
  v1::Plan plan;
  for (const StageCut& cut : cuts) {
    v1::PlanStage* stage = plan.add_stages();
    stage->set_first_layer(cut.first);
    stage->set_end_layer(cut.last + 1);
    stage->set_replicas(cut.replicas);
  }
  return plan;
}

// Minibatches to simulate, and the window of them in which the pipe is full.
struct Window {
  int64_t minibatches = 0;
  int64_t begin = 0;  // minibatch whose end opens the window
  int64_t end = 0;    // minibatch whose end closes it
};

Window SteadyWindow(const PipelineShape& shape, bool unit_is_microbatch,
                    int accumulate) {
  if (unit_is_microbatch) {
    // Every group of minibatches is like the one before.
    return {3 * int64_t{accumulate}, accumulate - 1, 3 * accumulate - 1};
  }
  int64_t round = accumulate;  // of updates of all stages
  for (const int r : shape.replicas) {
    round = std::lcm(round, int64_t{r} * accumulate);
  }
  round = std::min<int64_t>(round, 256);
  const int64_t depth =
      int64_t{Warmup(shape, StageId{0}) + 1} * shape.replicas[0];
  const int64_t start = 2 * depth + round;
  const int64_t rounds = std::max<int64_t>(2, (24 + round - 1) / round);
  return {start + rounds * round + depth + 1, start, start + rounds * round};
}

ActionTimes TimesOf(const Workload& work, const std::vector<StageCut>& cuts,
                    const DevicePool& pool,
                    const std::vector<std::vector<int>>& seats,
                    const PipelineShape& shape) {
  ActionTimes times;
  times.action_seconds = work.action_seconds;
  for (size_t s = 0; s < cuts.size(); ++s) {
    double forward = 0;
    double backward = 0;
    double update = 0;
    double weights = 0;
    for (int l = cuts[s].first; l <= cuts[s].last; ++l) {
      const LayerCost& cost = work.chain.layers[l];
      forward += cost.forward_seconds;
      backward += cost.backward_seconds;
      update += cost.update_seconds;
      weights += cost.parameter_bytes;
    }
    times.forward_seconds.push_back(forward);
    times.backward_seconds.push_back(backward);
    times.update_seconds.push_back(update);
    times.all_reduce_seconds.push_back(
        RingSeconds(weights, cuts[s].replicas, pool.LinkOf(seats[s])));
  }
  const std::vector<StageEdge> edges = EdgesOf(shape);
  const std::vector<int64_t> bytes = EdgeBytes(work, cuts);
  for (size_t e = 0; e < edges.size(); ++e) {
    std::vector<int> ends = seats[edges[e].from.value()];
    const std::vector<int>& to = seats[edges[e].to.value()];
    ends.insert(ends.end(), to.begin(), to.end());
    const Link& link = pool.LinkOf(ends);
    const bool copies = std::all_of(ends.begin(), ends.end(), [&](int device) {
      return pool.groups[pool.devices[device].group].copies;
    });
    const double work = copies ? MessageWork(link, bytes[e]) : 0;
    times.message_seconds.push_back(work);
    times.transfer_seconds.push_back(
        std::max(0.0, link.Seconds(bytes[e]) - work));
  }
  for (const CoreGroup& group : pool.groups) {
    times.group_cores.push_back(group.cores);
  }
  for (const std::vector<int>& stage : seats) {
    for (const int device : stage) {
      times.core_group.push_back(pool.devices[device].group);
    }
  }
  return times;
}

}  // namespace

double Workload::LayerSeconds(int layer) const {
  const LayerCost& cost = chain.layers[layer];
  return (cost.forward_seconds + cost.backward_seconds) * microbatches +
         cost.update_seconds / accumulate;
}

double Workload::CutBytes(int layer) const {
  return 0.5 * microbatches *
         static_cast<double>(chain.cut_bytes[layer] +
                             chain.gradient_bytes[layer]);
}

double Workload::WeightBytes(int layer) const {
  return static_cast<double>(chain.layers[layer].parameter_bytes) / accumulate;
}

PipelineShape ShapeOfCuts(const Workload& work,
                          const std::vector<StageCut>& cuts) {
  PipelineShape shape = ShapeOf(*work.graph, CutsAsPlan(cuts));
  shape.in_flight = work.in_flight;
  return shape;
}

std::vector<int64_t> EdgeBytes(const Workload& work,
                               const std::vector<StageCut>& cuts) {
  const v1::Graph& graph = *work.graph;
  std::vector<int> stage_of(graph.layers_size(), 0);
  for (size_t s = 0; s < cuts.size(); ++s) {
    for (int l = cuts[s].first; l <= cuts[s].last; ++l) {
      stage_of[l] = static_cast<int>(s);
    }
  }
  const std::vector<StageEdge> edges = EdgesOf(ShapeOfCuts(work, cuts));
  std::vector<int64_t> bytes(edges.size(), 0);
  // A tensor goes to a stage once, however many of its layers read it.
  absl::flat_hash_map<std::pair<std::string, int>, bool> sent;
  absl::flat_hash_map<std::string, int> index_of;
  const auto read = [&](const std::string& tensor, int reader) {
    const auto found = index_of.find(tensor);
    const int from = found == index_of.end() ? 0 : stage_of[found->second];
    const int to = stage_of[reader];
    if (from == to || !sent.emplace(std::make_pair(tensor, to), true).second) {
      return;
    }
    for (size_t e = 0; e < edges.size(); ++e) {
      if (edges[e].from.value() != from || edges[e].to.value() != to) continue;
      if (found != index_of.end()) {
        bytes[e] += work.chain.layers[found->second].output_bytes;
      } else {
        bytes[e] += tensor == "y" ? work.chain.y_bytes : work.chain.x_bytes;
      }
    }
  };
  for (int l = 0; l < graph.layers_size(); ++l) {
    const v1::Layer& layer = graph.layers(l);
    if (layer.inputs().empty()) {
      read(l == 0 ? "x" : graph.layers(l - 1).name(), l);
      if (l > 0 && l + 1 == graph.layers_size()) read("y", l);
    }
    for (const std::string& input : layer.inputs()) read(input, l);
    index_of[layer.name()] = l;
  }
  return bytes;
}

absl::StatusOr<Prediction> Predict(const Workload& work,
                                   const std::vector<StageCut>& cuts,
                                   const DevicePool& pool,
                                   const std::vector<std::vector<int>>& seats) {
  const PipelineShape shape = ShapeOfCuts(work, cuts);
  const Window window =
      SteadyWindow(shape, work.unit_is_microbatch, work.accumulate);
  Segment segment;
  segment.minibatches = window.minibatches;
  segment.microbatches = work.unit_is_microbatch ? work.microbatches : 1;
  segment.accumulate = work.accumulate;
  ASSIGN_OR_RETURN(const Program program, Compile(work.recipe, shape, segment));
  ASSIGN_OR_RETURN(const Timeline timeline,
                   Simulate(program, TimesOf(work, cuts, pool, seats, shape)));

  // A minibatch leaves the pipe with its last backward on stage 0.
  std::vector<double> left(segment.minibatches, 0);
  for (const Timeline::Span& span : timeline.spans) {
    if (program.rows[span.row].stage != StageId{0} ||
        span.kind != ActionKind::kBackward) {
      continue;
    }
    double& end = left[span.unit / segment.microbatches];
    end = std::max(end, span.end);
  }
  Prediction prediction;
  const double begin = left[window.begin];
  const double end = left[window.end];
  prediction.step_seconds =
      (end - begin) / static_cast<double>(window.end - window.begin);
  double busy = 0;
  for (const Timeline::Span& span : timeline.spans) {
    busy +=
        std::max(0.0, std::min(span.end, end) - std::max(span.begin, begin));
  }
  const double available = (end - begin) * program.rows.size();
  prediction.bubble = available > 0 ? 1 - busy / available : 0;
  return prediction;
}

}  // namespace pipework
