#include "scheduler/planning/to_plan.h"

#include <algorithm>
#include <utility>

#include "scheduler/compile.h"
#include "scheduler/planning/bottleneck.h"
#include "scheduler/planning/link_loads.h"
#include "scheduler/planning/memory.h"

namespace pipework {
namespace {

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
  for (int l = cut.first; l <= cut.last; ++l) {
    out->add_layers(work.graph->layers(l).name());
  }
  const LayerCost cost = work.chain.CostOf(cut.first, cut.last);
  const std::vector<int>& seats = candidate.layout.seats[s];
  for (const int seat : seats) {
    out->add_devices(planner.pool.devices[seat].name);
  }
  if (s < candidate.layout.shares.size()) {
    for (const int share : candidate.layout.shares[s]) out->add_shares(share);
  }
  const double scale = work.ScaleOf(cut.first, cut.last, seats[0]);
  const int parts = work.PartsOf(shape.round(StageId{0}));
  out->set_forward_seconds(cost.forward_seconds / parts * scale);
  out->set_backward_seconds(
      (cost.backward_seconds / parts + cost.update_seconds) * scale);
  out->set_update_seconds(cost.update_seconds * scale);
  out->set_all_reduce_seconds(
      RingSeconds(static_cast<double>(cost.parameter_bytes), cut.replicas,
                  planner.pool.LinkOf(seats)));
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

v1::Plan ToPlan(const Candidate& candidate) {
  const Planner& planner = *candidate.planner;
  const Workload& work = planner.work;
  const Layout& layout = candidate.layout;
  const PipelineShape shape = ShapeOfLayout(work, layout);
  v1::Plan plan;
  plan.set_feasible(true);
  const Bottleneck bottleneck = BottleneckOf(candidate);
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

  const std::vector<double> seconds = StageSeconds(candidate);
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
  for (v1::LinkLoad& load :
       LinkLoadsOf(work, planner.pool, layout, candidate.step_seconds())) {
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
