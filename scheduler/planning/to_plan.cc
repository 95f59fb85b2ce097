#include "scheduler/planning/to_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "scheduler/compile.h"
#include "scheduler/planning/memory.h"

namespace pipework {
namespace {

// Bytes per minibatch from one node to another.
using Traffic = std::map<std::pair<int, int>, double>;

// Pairs of replicas that are looked at one by one; beyond, a sample of them.
constexpr int64_t kMostPairs = 4096;
// Links of a plan that are shown.
constexpr size_t kMostLinks = 64;

void AddMessages(const Candidate& candidate, Traffic* traffic) {
  const Workload& work = candidate.planner->work;
  const DevicePool& pool = candidate.planner->pool;
  const Layout& layout = candidate.layout;
  const PipelineShape shape = ShapeOfLayout(work, layout);
  const std::vector<StageEdge> edges = EdgesOf(shape);
  const std::vector<int64_t> bytes = EdgeBytes(work, layout.cuts);
  // The device of each unit of a round, by stage.
  std::vector<std::vector<int>> seat_of;
  for (int s = 0; s < shape.stages(); ++s) {
    seat_of.push_back(TurnsOf(shape, StageId{s}));
    for (int& turn : seat_of.back()) turn = layout.seats[s][turn];
  }
  for (size_t e = 0; e < edges.size(); ++e) {
    const size_t from = edges[e].from.value();
    const size_t to = edges[e].to.value();
    const int64_t turns =
        std::min(kMostPairs, std::lcm(int64_t{shape.round(edges[e].from)},
                                      int64_t{shape.round(edges[e].to)}));
    const double each = static_cast<double>(bytes[e]) * work.microbatches /
                        static_cast<double>(turns);
    for (int64_t turn = 0; turn < turns; ++turn) {
      const int a =
          pool.devices[seat_of[from][turn % seat_of[from].size()]].node;
      const int b = pool.devices[seat_of[to][turn % seat_of[to].size()]].node;
      (*traffic)[{a, b}] += each;
      if (edges[e].has_gradient) (*traffic)[{b, a}] += each;
    }
  }
}

void AddAllReduces(const Candidate& candidate, Traffic* traffic) {
  const Workload& work = candidate.planner->work;
  const DevicePool& pool = candidate.planner->pool;
  const Layout& layout = candidate.layout;
  const PipelineShape shape = ShapeOfLayout(work, layout);
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    const StageCut& cut = layout.cuts[s];
    if (cut.replicas == 1) continue;
    double weights = 0;
    for (int l = cut.first; l <= cut.last; ++l) weights += work.WeightBytes(l);
    const double updates =
        work.unit_is_microbatch
            ? 1
            : 1.0 / shape.round(StageId{static_cast<int>(s)});
    // Each member sends every other its part of the sum, and the sum's part.
    std::map<int, int> members;  // of each node
    for (const int device : layout.seats[s]) {
      ++members[pool.devices[device].node];
    }
    for (const auto& [a, on_a] : members) {
      for (const auto& [b, on_b] : members) {
        const double pairs =
            static_cast<double>(on_a) * (a == b ? on_b - 1 : on_b);
        (*traffic)[{a, b}] += 2 * updates * pairs * weights / cut.replicas;
      }
    }
  }
}

int64_t LimitOf(const DevicePool& pool, const std::vector<int>& seats) {
  int64_t limit = 0;
  for (const int seat : seats) {
    const int64_t bytes = pool.devices[seat].memory_bytes;
    if (bytes > 0) limit = limit == 0 ? bytes : std::min(limit, bytes);
  }
  return limit;
}

void AddStage(const Candidate& candidate, const PipelineShape& shape, size_t s,
              v1::Plan* plan) {
  const Planner& planner = *candidate.planner;
  const Workload& work = planner.work;
  const StageCut& cut = candidate.layout.cuts[s];
  const StageId stage{static_cast<int>(s)};
  const Holds holds = HoldsOf(work, shape, stage);
  const StageMemory memory =
      MemoryOf(work.chain, cut.first, cut.last, holds, planner.optimizer);
  v1::PlanStage* out = plan->add_stages();
  out->set_index(stage.value());
  out->set_first_layer(cut.first);
  out->set_end_layer(cut.last + 1);
  out->set_replicas(cut.replicas);
  double forward = 0;
  double backward = 0;
  double update = 0;
  double weights = 0;
  for (int l = cut.first; l <= cut.last; ++l) {
    const LayerCost& cost = work.chain.layers[l];
    out->add_layers(work.graph->layers(l).name());
    forward += cost.forward_seconds;
    backward += cost.backward_seconds;
    update += cost.update_seconds;
    weights += cost.parameter_bytes;
  }
  const std::vector<int>& seats = candidate.layout.seats[s];
  for (const int seat : seats) {
    out->add_devices(planner.pool.devices[seat].name);
  }
  if (s < candidate.layout.shares.size()) {
    for (const int share : candidate.layout.shares[s]) out->add_shares(share);
  }
  const double scale = work.ScaleOf(cut.first, cut.last, seats[0]);
  const int parts = work.PartsOf(shape.round(StageId{0}));
  out->set_forward_seconds(forward / parts * scale);
  out->set_backward_seconds((backward / parts + update) * scale);
  out->set_update_seconds(update * scale);
  out->set_all_reduce_seconds(
      RingSeconds(weights, cut.replicas, planner.pool.LinkOf(seats)));
  out->set_weight_bytes(memory.weight_bytes);
  out->set_stash_bytes(memory.stash_bytes);
  out->set_activation_bytes(memory.activation_bytes);
  out->set_optimizer_bytes(memory.optimizer_bytes);
  out->set_workspace_bytes(memory.workspace_bytes);
  out->set_total_bytes(memory.total());
  out->set_limit_bytes(LimitOf(planner.pool, seats));
  out->set_warmup(Warmup(shape, stage));
  out->set_versions(holds.versions);
  out->set_utilisation(candidate.prediction.utilisation[s]);
  out->set_staleness(candidate.prediction.staleness[s]);
}

}  // namespace

std::vector<v1::LinkLoad> LinkLoads(const Candidate& candidate) {
  const DevicePool& pool = candidate.planner->pool;
  Traffic traffic;
  AddMessages(candidate, &traffic);
  AddAllReduces(candidate, &traffic);
  const double step = candidate.step_seconds();
  std::vector<int> first_on(pool.nodes.size(), -1);  // a device of each node
  for (int d = pool.size() - 1; d >= 0; --d) first_on[pool.devices[d].node] = d;
  Traffic busier;  // of the two directions
  for (const auto& [ends, bytes] : traffic) {
    double& most = busier[std::minmax(ends.first, ends.second)];
    most = std::max(most, bytes);
  }
  std::vector<v1::LinkLoad> loads;
  for (const auto& [ends, bytes] : busier) {
    if (bytes <= 0) continue;
    const auto [a, b] = ends;
    v1::LinkLoad load;
    load.set_from(pool.nodes[a]);
    load.set_to(pool.nodes[b]);
    load.set_bytes_per_second(step > 0 ? bytes / step : 0);
    load.set_limit_bytes_per_second(
        pool.LinkOf({first_on[a], first_on[b]}).bytes_per_second);
    loads.push_back(std::move(load));
  }
  // Links without a limit are never busy.
  const auto share = [](const v1::LinkLoad& load) {
    return load.limit_bytes_per_second() > 0
               ? load.bytes_per_second() / load.limit_bytes_per_second()
               : 0;
  };
  std::stable_sort(loads.begin(), loads.end(),
                   [&share](const v1::LinkLoad& a, const v1::LinkLoad& b) {
                     return share(a) > share(b);
                   });
  if (loads.size() > kMostLinks) loads.resize(kMostLinks);
  return loads;
}

v1::Plan ToPlan(const Candidate& candidate) {
  const Planner& planner = *candidate.planner;
  const Workload& work = planner.work;
  const Layout& layout = candidate.layout;
  const PipelineShape shape = ShapeOfLayout(work, layout);
  v1::Plan plan;
  plan.set_feasible(true);
  const Bottleneck bottleneck = BottleneckOf(planner, layout);
  plan.set_bottleneck_seconds(bottleneck.seconds);
  plan.set_bottleneck(bottleneck.where);
  plan.set_predicted_step_ms(candidate.step_seconds() * 1e3);
  if (candidate.step_seconds() > 0) {
    plan.set_samples_per_second(work.minibatch_samples /
                                candidate.step_seconds());
  }
  plan.set_bubble(candidate.prediction.bubble);
  plan.set_in_flight(RoundsInFlight(shape));
  plan.set_schedule(work.recipe.schedule);
  plan.set_weights(work.recipe.weights);
  plan.set_microbatches(work.microbatches);
  plan.set_minibatch(work.minibatch_samples);

  const std::vector<double> seconds = StageSeconds(planner, layout);
  std::vector<int64_t> sent(layout.cuts.size(), 0);
  const std::vector<StageEdge> edges = EdgesOf(shape);
  const std::vector<int64_t> edge_bytes = EdgeBytes(work, layout.cuts);
  for (size_t e = 0; e < edges.size(); ++e) {
    sent[edges[e].from.value()] += edge_bytes[e];
  }
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    AddStage(candidate, shape, s, &plan);
    plan.mutable_stages(static_cast<int>(s))->set_seconds(seconds[s]);
    plan.mutable_stages(static_cast<int>(s))
        ->set_output_bytes(sent[s] / work.PartsOf(shape.round(StageId{0})));
  }
  for (v1::LinkLoad& load : LinkLoads(candidate)) {
    *plan.add_links() = std::move(load);
  }
  return plan;
}

int64_t TotalBytes(const v1::Plan& plan) {
  int64_t bytes = 0;
  for (const v1::PlanStage& stage : plan.stages()) {
    bytes += stage.total_bytes() * stage.replicas();
  }
  return bytes;
}

int64_t LargestBytes(const v1::Plan& plan) {
  int64_t bytes = 0;
  for (const v1::PlanStage& stage : plan.stages()) {
    bytes = std::max(bytes, stage.total_bytes());
  }
  return bytes;
}

double LargestStaleness(const v1::Plan& plan) {
  double staleness = 0;
  for (const v1::PlanStage& stage : plan.stages()) {
    staleness = std::max(staleness, stage.staleness());
  }
  return staleness;
}

}  // namespace pipework
