#include "scheduler/planning/orders.h"

#include <algorithm>
#include <utility>

#include "partitioner/algorithms/partitioner.h"
#include "partitioner/algorithms/pipedream_dp.h"
#include "partitioner/algorithms/public_code.h"
#include "partitioner/states.h"
#include "proto/status_macros.h"
#include "scheduler/layer_order.h"

namespace pipework {
namespace {

constexpr int kLongestPipeline = 16;

// Whether every layer reads the one before it and nothing else.
bool IsChain(const v1::Graph& graph) {
  const std::vector<std::vector<int>> read = LayersRead(graph);
  for (int l = 1; l < graph.layers_size(); ++l) {
    if (read[l] != std::vector<int>{l - 1}) return false;
  }
  return true;
}

PartitionInput InputOf(const Workload& work, const StateGraph& states,
                       const CostModel& model) {
  PartitionInput input;
  input.cost_model = &model;
  const double units = work.microbatches;
  for (const State& state : states.states) {
    input.predecessors.push_back(state.predecessors);
    input.state_seconds.push_back(state.compute_seconds * units);
    input.state_weight_bytes.push_back(state.parameter_bytes / work.accumulate);
    input.cut_bytes.push_back(0.5 * units *
                              (state.cut_bytes + state.gradient_bytes));
  }
  return input;
}

OrderedCuts AsRanges(const StateGraph& states, const Partition& partition) {
  OrderedCuts out;
  out.seconds = partition.seconds;
  std::vector<int> chain;
  int next = 0;
  for (const StageCut& cut : partition.workers) {
    chain.push_back(cut.last);
    const int end = static_cast<int>(states.states[cut.last].layers.size());
    out.cuts.push_back({next, end - 1, cut.replicas});
    next = end;
  }
  out.order = OrderOf(states, chain);
  if (std::is_sorted(out.order.begin(), out.order.end())) out.order.clear();
  return out;
}

}  // namespace

absl::StatusOr<OrderedCuts> PaperCuts(const Workload& work,
                                      const v1::Profile& profile,
                                      const DevicePool& pool,
                                      const CostModel& model, const Pins& pins,
                                      bool fewer_devices) {
  ASSIGN_OR_RETURN(const LayerGraph graph,
                   MakeLayerGraph(*work.graph, profile, work.unit_scale));
  const StateGraph states = MakeStates(graph, {});
  PartitionInput input = InputOf(work, states, model);
  input.levels = LevelsOf(pool);
  input.max_stages = pins.max_stages;
  input.straight = pins.straight;
  input.fewer_workers = fewer_devices;
  ASSIGN_OR_RETURN(const Partition partition, PipedreamDp(input));
  return AsRanges(states, partition);
}

absl::StatusOr<OrderedCuts> PublicCodeCuts(const Workload& work,
                                           const v1::Profile& profile,
                                           const DevicePool& pool,
                                           const Pins& pins, bool fewer_devices,
                                           int64_t memory_limit) {
  ASSIGN_OR_RETURN(const LayerGraph graph,
                   MakeLayerGraph(*work.graph, profile, work.unit_scale));
  PublicCodeOptions options;
  options.levels = LevelsOf(pool);
  options.straight = pins.straight;
  options.use_fewer_machines = fewer_devices;
  options.memory_limit_bytes = static_cast<double>(memory_limit);
  ASSIGN_OR_RETURN(const PublicCodePlan plan, PublicCode(graph, options));
  return AsRanges(plan.states, plan.partition);
}

std::vector<std::vector<int>> OrdersToTry(const Workload& work,
                                          const v1::Profile& profile,
                                          const DevicePool& pool,
                                          const CostModel& model,
                                          const Pins& pins) {
  std::vector<std::vector<int>> orders;
  if (pool.size() < 2 || !pins.cuts.empty() || IsChain(*work.graph)) {
    return orders;
  }
  const auto graph = MakeLayerGraph(*work.graph, profile, work.unit_scale);
  if (!graph.ok()) return orders;
  const StateGraph states = MakeStates(*graph, {});
  PartitionInput input = InputOf(work, states, model);
  const auto add = [&](const PartitionInput& variant) {
    const absl::StatusOr<Partition> partition = PipedreamDp(variant);
    if (!partition.ok()) return;
    std::vector<int> chain;
    for (const StageCut& cut : partition->workers) chain.push_back(cut.last);
    std::vector<int> order = OrderOf(states, chain);
    if (std::is_sorted(order.begin(), order.end())) return;
    if (std::find(orders.begin(), orders.end(), order) != orders.end()) return;
    orders.push_back(std::move(order));
  };
  const Link& joining =
      pool.nodes.size() > 1 ? pool.between_nodes : pool.within_node;
  PartitionInput straight = input;
  straight.straight = true;
  const int longest =
      pins.stage_count > 0
          ? pins.stage_count
          : std::min({pool.size(), work.chain.size(), kLongestPipeline});
  straight.levels = {{longest, joining}};
  add(straight);
  if (pins.stage_count > 0) return orders;
  input.max_stages = pins.max_stages;
  input.straight = pins.straight;
  input.levels = LevelsOf(pool);
  add(input);
  if (!pins.straight && pool.size() > 2 && pins.max_stages != 1) {
    PartitionInput two = input;
    two.levels = {{2, joining}};
    add(two);
  }
  return orders;
}

}  // namespace pipework
