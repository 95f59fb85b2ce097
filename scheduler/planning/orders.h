// Orders of a graph's layers in which stages may cut across branches.
#ifndef PIPEWORK_SCHEDULER_PLANNING_ORDERS_H_
#define PIPEWORK_SCHEDULER_PLANNING_ORDERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/algorithms/partitioner.h"
#include "partitioner/cost_model.h"
#include "proto/profile.pb.h"
#include "scheduler/planning/devices.h"
#include "scheduler/planning/pins.h"
#include "scheduler/planning/workload.h"

namespace pipework {

// The orders, beside the graph's own, in which the partitioner's best pipelines
// over the states of the graph are ranges of layers: each a list of layers,
// without repetition. None for a chain, or where the best pipelines cut the
// graph in its own order.
// Cost: that of MakeStates and of PipedreamDp over the states, up to four
// times.
std::vector<std::vector<int>> OrdersToTry(const Workload& work,
                                          const v1::Profile& profile,
                                          const DevicePool& pool,
                                          const CostModel& model,
                                          const Pins& pins);

// A pipeline over the states of a graph, as ranges of an order of its layers.
struct OrderedCuts {
  std::vector<int> order;  // empty: the graph's own
  std::vector<StageCut> cuts;
  double seconds = 0;  // of the slowest stage or cut, as the algorithm has it
};

// What the paper's recurrences say of all devices, level by level where nodes
// are alike: computing alone counts, without updates, and memory does not.
absl::StatusOr<OrderedCuts> PaperCuts(const Workload& work,
                                      const v1::Profile& profile,
                                      const DevicePool& pool,
                                      const CostModel& model, const Pins& pins,
                                      bool fewer_devices);

// What the published optimizer says. `memory_limit` as it counts memory; 0: no
// limit.
absl::StatusOr<OrderedCuts> PublicCodeCuts(const Workload& work,
                                           const v1::Profile& profile,
                                           const DevicePool& pool,
                                           const Pins& pins, bool fewer_devices,
                                           int64_t memory_limit);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_ORDERS_H_
