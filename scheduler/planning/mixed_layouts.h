// Layouts for devices that differ.
#ifndef PIPEWORK_SCHEDULER_PLANNING_MIXED_LAYOUTS_H_
#define PIPEWORK_SCHEDULER_PLANNING_MIXED_LAYOUTS_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "scheduler/planning/devices.h"
#include "scheduler/planning/pins.h"
#include "scheduler/planning/workload.h"

namespace pipework {

// What the partitioner for mixed devices says, with devices and shares: over
// all of them, over the faster kinds alone, and with the number of stages that
// `pins` asks for. Stage 0 sits on `data_nodes` (empty: anywhere), or the
// layout is left out. Memory is looked at, not promised. None where devices are
// alike, or stages are listed.
std::vector<Layout> MixedLayouts(const Workload& work, const DevicePool& pool,
                                 const v1::OptimizerSpec& optimizer,
                                 const Pins& pins,
                                 const std::vector<std::string>& data_nodes);

// Shares of the replicas of each stage of `layout` by the speed of their
// devices; empty where all are one each.
std::vector<std::vector<int>> SharesOf(const Workload& work,
                                       const Layout& layout);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_MIXED_LAYOUTS_H_
