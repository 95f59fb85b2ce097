// Cuts for devices that share cores.
#ifndef PIPEWORK_SCHEDULER_PLANNING_CUT_MOVER_H_
#define PIPEWORK_SCHEDULER_PLANNING_CUT_MOVER_H_

#include <vector>

#include "partitioner/algorithms/partitioner.h"
#include "scheduler/planning/devices.h"
#include "scheduler/planning/workload.h"

namespace pipework {

// Moves the cuts of a pipeline whose seats are fixed (by stage and replica), so
// that the busiest core group, then the slowest stage, then what is sent, is
// least. Looks at every way to cut where there are not too many, else moves one
// cut by one layer as long as that helps. Numbers of stages and replicas stay.
std::vector<StageCut> MoveCuts(const Workload& work, const DevicePool& pool,
                               std::vector<StageCut> cuts,
                               const std::vector<std::vector<int>>& seats);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_CUT_MOVER_H_
