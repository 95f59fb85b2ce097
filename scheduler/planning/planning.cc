#include "scheduler/planning/planning.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/planning/candidates.h"
#include "scheduler/planning/memory.h"
#include "scheduler/planning/pins.h"
#include "scheduler/schedules/schedule.h"

namespace pipework {
namespace {

absl::StatusOr<Workload> MakeWorkload(const v1::JobSpec& spec,
                                      const v1::Graph& graph,
                                      const v1::Profile& profile, Recipe recipe,
                                      int microbatches) {
  Workload work;
  if (spec.batch().minibatch() < 1) {
    return Mismatch("batch", "minibatch",
                    absl::StrCat(spec.batch().minibatch()), "1 or more");
  }
  if (recipe.schedule.empty()) recipe.schedule = "1f1b";
  ASSIGN_OR_RETURN(work.recipe, CheckRecipe(recipe, microbatches));
  ASSIGN_OR_RETURN(const ScheduleEntry* schedule,
                   FindSchedule(work.recipe.schedule));
  work.graph = &graph;
  work.unit_is_microbatch = schedule->unit_is_microbatch;
  work.microbatches = microbatches;
  work.accumulate = std::max(1, static_cast<int>(spec.batch().accumulate()));
  work.minibatch_samples = spec.batch().minibatch();
  work.action_seconds = profile.action_seconds();
  const int64_t unit =
      (work.minibatch_samples + microbatches - 1) / microbatches;
  const double scale =
      static_cast<double>(unit) / std::max<int64_t>(1, profile.batch());
  ASSIGN_OR_RETURN(work.chain, MakeChain(graph, profile, scale));
  return work;
}

absl::Status CheckDevices(const DevicePool& pool, const Pins& pins) {
  if (pool.size() == 0) {
    return absl::FailedPreconditionError(
        MismatchText("plan", "the number of usable devices", "0", "1 or more",
                     pool.unusable.empty()
                         ? "start a node daemon"
                         : absl::StrCat("not usable: ",
                                        absl::StrJoin(pool.unusable, ", "))));
  }
  int needed = pins.stage_count;
  std::string why = absl::StrCat(pins.stage_count, " stages");
  if (!pins.replicas.empty()) {
    needed = std::accumulate(pins.replicas.begin(), pins.replicas.end(), 0);
    absl::StrAppend(&why, " with their replicas");
  }
  if (needed > pool.size()) {
    return absl::FailedPreconditionError(
        MismatchText("plan", "the number of devices needed",
                     absl::StrCat(needed, " (", why, ")"),
                     absl::StrCat("at most ", pool.size(),
                                  ", the usable devices of the cluster"),
                     "use fewer stages or replicas, or add devices"));
  }
  return absl::OkStatus();
}

v1::Plan ToPlan(const Planner& planner, const Candidate& candidate) {
  const Workload& work = planner.work;
  const PipelineShape shape = ShapeOfCuts(work, candidate.cuts);
  const std::vector<double> seconds = StageSeconds(planner, candidate);
  v1::Plan plan;
  plan.set_feasible(true);
  plan.set_bottleneck_seconds(BottleneckSeconds(planner, candidate));
  plan.set_predicted_step_ms(candidate.prediction.step_seconds * 1e3);
  if (candidate.prediction.step_seconds > 0) {
    plan.set_samples_per_second(work.minibatch_samples /
                                candidate.prediction.step_seconds);
  }
  plan.set_bubble(candidate.prediction.bubble);
  plan.set_in_flight(Warmup(shape, StageId{0}) + 1);
  plan.set_schedule(work.recipe.schedule);
  plan.set_weights(work.recipe.weights);
  plan.set_microbatches(work.microbatches);

  std::vector<int64_t> sent(candidate.cuts.size(), 0);
  const std::vector<StageEdge> edges = EdgesOf(shape);
  const std::vector<int64_t> edge_bytes = EdgeBytes(work, candidate.cuts);
  for (size_t e = 0; e < edges.size(); ++e) {
    sent[edges[e].from.value()] += edge_bytes[e];
  }
  for (size_t s = 0; s < candidate.cuts.size(); ++s) {
    const StageCut& cut = candidate.cuts[s];
    const StageId stage{static_cast<int>(s)};
    const StageMemory memory =
        MemoryOf(work.chain, cut.first, cut.last, HoldsOf(work, shape, stage),
                 planner.optimizer);
    v1::PlanStage* out = plan.add_stages();
    out->set_index(stage.value());
    out->set_first_layer(cut.first);
    out->set_end_layer(cut.last + 1);
    out->set_replicas(cut.replicas);
    double forward = 0;
    double backward = 0;
    for (int l = cut.first; l <= cut.last; ++l) {
      const LayerCost& cost = work.chain.layers[l];
      out->add_layers(work.graph->layers(l).name());
      forward += cost.forward_seconds;
      backward += cost.backward_seconds + cost.update_seconds;
    }
    int64_t limit = 0;
    for (const int seat : candidate.seats[s]) {
      const PooledDevice& device = planner.pool.devices[seat];
      out->add_devices(device.name);
      if (device.memory_bytes > 0) {
        limit = limit == 0 ? device.memory_bytes
                           : std::min(limit, device.memory_bytes);
      }
    }
    out->set_seconds(seconds[s]);
    out->set_forward_seconds(forward);
    out->set_backward_seconds(backward);
    out->set_weight_bytes(memory.weight_bytes);
    out->set_stash_bytes(memory.stash_bytes);
    out->set_activation_bytes(memory.activation_bytes);
    out->set_optimizer_bytes(memory.optimizer_bytes);
    out->set_total_bytes(memory.total());
    out->set_limit_bytes(limit);
    out->set_output_bytes(sent[s]);
    out->set_warmup(Warmup(shape, stage));
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

// The ways that the paper compares with, on the same devices: `whole` takes
// minibatches, one device and data parallelism know no microbatches.
void AddRivals(const Planner& planner, const Planner& whole, v1::Plan* plan) {
  const int devices = planner.pool.size();
  const int layers = planner.work.chain.size();
  const int depth = std::min(devices, layers);
  Workload one_at_a_time = whole.work;
  one_at_a_time.in_flight = 1;
  const Planner naive = {one_at_a_time, whole.pool, whole.optimizer,
                         whole.model, whole.data_nodes};
  struct Way {
    absl::string_view name;
    const Planner* planner;
    absl::StatusOr<Candidate> candidate;
  };
  const Way ways[] = {
      {"one_device", &whole, Judge(whole, {{0, layers - 1, 1}}, {})},
      {"data_parallel", &whole, Judge(whole, {{0, layers - 1, devices}}, {})},
      {"model_parallel", &naive, CandidateOf(naive, depth, depth)},
      {"straight", &planner, CandidateOf(planner, depth, depth)},
  };
  double data_parallel = 0;
  for (const Way& way : ways) {
    v1::Rival* rival = plan->add_rivals();
    rival->set_name(std::string(way.name));
    rival->set_feasible(way.candidate.ok());
    if (!way.candidate.ok()) continue;
    const v1::Plan other = ToPlan(*way.planner, *way.candidate);
    rival->set_samples_per_second(other.samples_per_second());
    rival->set_total_bytes(TotalBytes(other));
    if (way.name == "data_parallel") {
      data_parallel = other.samples_per_second();
    }
  }
  if (data_parallel <= 0) return;
  for (v1::Rival& rival : *plan->mutable_rivals()) {
    rival.set_speedup_over_data_parallel(rival.samples_per_second() /
                                         data_parallel);
  }
}

}  // namespace

absl::StatusOr<v1::Plan> PlanJob(const v1::JobSpec& spec,
                                 const v1::Graph& graph,
                                 const v1::Profile& profile,
                                 const v1::Topology& topology,
                                 const PlanningOptions& options) {
  ASSIGN_OR_RETURN(const CostModel* model, FindCostModel(options.cost_model));
  const DevicePool pool = MakePool(topology, spec.threads_per_executor());
  ASSIGN_OR_RETURN(const Pins pins, ReadPins(spec.pipeline(), graph, pool));
  const Recipe recipe = {spec.pipeline().schedule(), spec.pipeline().weights()};
  const int microbatches =
      std::max(1, static_cast<int>(spec.batch().microbatches()));
  ASSIGN_OR_RETURN(Workload work,
                   MakeWorkload(spec, graph, profile, recipe, microbatches));
  work.in_flight = pins.in_flight;
  RETURN_IF_ERROR(CheckDevices(pool, pins));

  const Planner planner = {work, pool, spec.optimizer(), *model,
                           options.data_nodes};
  std::vector<Candidate> candidates;
  if (options.cost_model == "paper" && pins.stage_count == 0) {
    ASSIGN_OR_RETURN(Candidate candidate, PaperCandidate(planner));
    candidates.push_back(std::move(candidate));
  } else {
    ASSIGN_OR_RETURN(candidates, Candidates(planner, pins));
  }

  v1::Plan plan = ToPlan(planner, candidates[0]);
  plan.set_cost_model(options.cost_model);
  plan.set_estimated(profile.estimated());
  const size_t shown = std::min(candidates.size(),
                                size_t{1} + std::max(0, options.alternatives));
  for (size_t i = 1; i < shown; ++i) {
    v1::Plan* alternative = plan.add_alternatives();
    *alternative = ToPlan(planner, candidates[i]);
    alternative->set_cost_model(options.cost_model);
    alternative->set_estimated(profile.estimated());
  }
  if (options.rivals) {
    ASSIGN_OR_RETURN(const Workload whole_work,
                     MakeWorkload(spec, graph, profile, {"1f1b", "stash"}, 1));
    const Planner whole = {whole_work, pool, spec.optimizer(), *model,
                           options.data_nodes};
    AddRivals(planner, whole, &plan);
  }
  return plan;
}

}  // namespace pipework
