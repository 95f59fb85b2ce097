#include "scheduler/planning/to_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "partitioner/cost_model.h"
#include "scheduler/compile.h"
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

bool IsOurs(const CostModel& model) {
  const absl::StatusOr<const CostModel*> ours = FindCostModel("pipework");
  return ours.ok() && *ours == &model;
}

}  // namespace

Bottleneck PlannedBottleneck(const Candidate& candidate) {
  const Planner& planner = *candidate.planner;
  const Bottleneck told = BottleneckOf(planner, candidate.layout);
  const double step = candidate.step_seconds();
  if (!IsOurs(planner.model) || told.seconds <= step) return told;
  const std::vector<double>& busy = candidate.prediction.utilisation;
  const auto most = std::max_element(busy.begin(), busy.end());
  if (most == busy.end()) return told;
  const int stage = static_cast<int>(most - busy.begin());
  return {std::min(step, *most * step), absl::StrCat("stage ", stage), stage};
}

v1::Plan ToPlan(const Candidate& candidate) {
  const Planner& planner = *candidate.planner;
  const Workload& work = planner.work;
  const Layout& layout = candidate.layout;
  const PipelineShape shape = ShapeOfLayout(work, layout);
  v1::Plan plan;
  plan.set_feasible(true);
  const Bottleneck bottleneck = PlannedBottleneck(candidate);
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
    const double most =
        IsOurs(planner.model) ? candidate.step_seconds() : seconds[s];
    plan.mutable_stages(static_cast<int>(s))
        ->set_seconds(std::min(seconds[s], most));
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
