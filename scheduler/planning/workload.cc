#include "scheduler/planning/workload.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/schedules/schedule.h"

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

Pace PaceOf(const ChainProfile& chain, double slowness) {
  Pace pace;
  for (const LayerCost& cost : chain.layers) {
    pace.compute_seconds.push_back(
        (cost.forward_seconds + cost.backward_seconds) * slowness);
    pace.update_seconds.push_back(cost.update_seconds * slowness);
  }
  return pace;
}

absl::Status AddPaces(const v1::Graph& graph, const v1::Profile& profile,
                      absl::Span<const v1::Profile> others, double scale,
                      const DevicePool& pool, Workload* work) {
  // By kind of device: the profile that it goes by, 0 for the main one.
  std::vector<size_t> source_of(pool.kinds.size(), 0);
  std::vector<ChainProfile> chains = {work->chain};
  for (const v1::Profile& other : others) {
    ASSIGN_OR_RETURN(ChainProfile chain, MakeChain(graph, other, scale));
    for (size_t k = 0; k < pool.kinds.size(); ++k) {
      if (pool.kinds[k] == other.device_kind() &&
          pool.kinds[k] != profile.device_kind()) {
        source_of[k] = chains.size();
      }
    }
    chains.push_back(std::move(chain));
  }
  std::vector<std::pair<size_t, double>> known;  // (profile, slowness)
  std::vector<int> pace_of;
  for (const PooledDevice& device : pool.devices) {
    const size_t source = source_of[device.kind];
    const double slowness = source == 0 ? 1 / device.relative_speed : 1;
    const auto pace = std::make_pair(source, slowness);
    const auto at = std::find(known.begin(), known.end(), pace);
    pace_of.push_back(static_cast<int>(at - known.begin()));
    if (at == known.end()) known.push_back(pace);
  }
  if (known.empty() ||
      (known.size() == 1 && known[0] == std::make_pair(size_t{0}, 1.0))) {
    return absl::OkStatus();
  }
  for (const auto& [source, slowness] : known) {
    work->paces.push_back(PaceOf(chains[source], slowness));
  }
  work->pace_of = std::move(pace_of);
  return absl::OkStatus();
}

}  // namespace

double Workload::LayerSeconds(int layer) const {
  const LayerCost& cost = chain.layers[layer];
  return (cost.forward_seconds + cost.backward_seconds) * microbatches +
         cost.update_seconds / accumulate;
}

double Workload::LayerSeconds(int layer, int device) const {
  if (paces.empty()) return LayerSeconds(layer);
  const Pace& pace = paces[pace_of[device]];
  return pace.compute_seconds[layer] * microbatches +
         pace.update_seconds[layer] / accumulate;
}

double Workload::ScaleOf(int first, int last, int device) const {
  if (paces.empty()) return 1;
  double here = 0;
  double reference = 0;
  for (int l = first; l <= last; ++l) {
    here += LayerSeconds(l, device);
    reference += LayerSeconds(l);
  }
  return reference > 0 ? here / reference : 1;
}

double Workload::ComputeSeconds(int first, int last) const {
  double seconds = 0;
  for (int l = first; l <= last; ++l) seconds += LayerSeconds(l);
  return seconds;
}

double Workload::CutBytes(int layer) const {
  return 0.5 * microbatches *
         static_cast<double>(chain.cut_bytes[layer] +
                             chain.gradient_bytes[layer]);
}

double Workload::WeightBytes(int layer) const {
  return static_cast<double>(chain.layers[layer].parameter_bytes) / accumulate;
}

WorkloadRequest RequestOf(const v1::JobSpec& spec, int in_flight) {
  WorkloadRequest request;
  request.recipe = {spec.pipeline().schedule(), spec.pipeline().weights()};
  request.microbatches =
      std::max(1, static_cast<int>(spec.batch().microbatches()));
  request.minibatch = spec.batch().minibatch();
  request.accumulate = std::max(1, static_cast<int>(spec.batch().accumulate()));
  request.in_flight = in_flight;
  return request;
}

absl::StatusOr<Workload> MakeWorkload(const WorkloadRequest& request,
                                      const v1::Graph& graph,
                                      const v1::Profile& profile,
                                      absl::Span<const v1::Profile> others,
                                      const DevicePool& pool) {
  Workload work;
  if (request.minibatch < 1) {
    return Mismatch("batch", "minibatch", absl::StrCat(request.minibatch),
                    "1 or more");
  }
  Recipe recipe = request.recipe;
  if (recipe.schedule.empty()) recipe.schedule = "1f1b";
  ASSIGN_OR_RETURN(work.recipe, CheckRecipe(recipe, request.microbatches));
  ASSIGN_OR_RETURN(const ScheduleEntry* schedule,
                   FindSchedule(work.recipe.schedule));
  work.graph = &graph;
  work.unit_is_microbatch = schedule->unit_is_microbatch;
  work.microbatches = request.microbatches;
  work.accumulate = request.accumulate;
  work.minibatch_samples = request.minibatch;
  PipelineShape limits;
  limits.in_flight = request.in_flight;
  work.in_flight = ShapeFor(work.recipe, limits).in_flight;
  work.action_seconds = profile.action_seconds();
  const int64_t unit =
      (request.minibatch + request.microbatches - 1) / request.microbatches;
  const double scale =
      static_cast<double>(unit) / std::max<int64_t>(1, profile.batch());
  work.unit_scale = scale;
  ASSIGN_OR_RETURN(work.chain, MakeChain(graph, profile, scale));
  RETURN_IF_ERROR(AddPaces(graph, profile, others, scale, pool, &work));
  return work;
}

int Layout::devices() const {
  int devices = 0;
  for (const std::vector<int>& stage : seats) {
    devices += static_cast<int>(stage.size());
  }
  return devices;
}

std::vector<Level> LevelsOf(const DevicePool& pool) {
  const std::vector<int> counts = pool.UniformCounts();
  std::vector<Level> levels;
  for (size_t k = 0; k < counts.size() && k < pool.levels.size(); ++k) {
    levels.push_back({counts[k], pool.levels[k]});
  }
  if (levels.empty()) {
    levels.push_back({pool.size(), pool.nodes.size() > 1 ? pool.between_nodes
                                                         : pool.within_node});
  }
  return levels;
}

PipelineShape ShapeOfCuts(const Workload& work,
                          const std::vector<StageCut>& cuts) {
  PipelineShape shape = ShapeOf(*work.graph, CutsAsPlan(cuts));
  shape.in_flight = work.in_flight;
  return shape;
}

PipelineShape ShapeOfLayout(const Workload& work, const Layout& layout) {
  PipelineShape shape = ShapeOfCuts(work, layout.cuts);
  shape.in_flight = layout.in_flight;
  shape.shares.clear();
  for (const std::vector<int>& shares : layout.shares) {
    shape.shares.push_back(NormalShares(shares));
  }
  return shape;
}

double StageComputeSeconds(const Workload& work, const Layout& layout,
                           size_t stage) {
  const StageCut& cut = layout.cuts[stage];
  const double reference = work.ComputeSeconds(cut.first, cut.last);
  if (!work.mixed() && layout.shares.empty()) {
    return reference * work.ScaleOf(cut.first, cut.last, 0) / cut.replicas;
  }
  const bool even =
      stage >= layout.shares.size() || layout.shares[stage].empty();
  double slowest = 0;
  int round = 0;
  for (size_t q = 0; q < layout.seats[stage].size(); ++q) {
    const int share = even ? 1 : layout.shares[stage][q];
    round += share;
    slowest = std::max(
        slowest, share * reference *
                     work.ScaleOf(cut.first, cut.last, layout.seats[stage][q]));
  }
  return slowest / std::max(1, round);
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

}  // namespace pipework
