// 1f1b: one forward, one backward, asynchronous.
#ifndef PIPEWORK_SCHEDULER_SCHEDULES_ONE_F_ONE_B_H_
#define PIPEWORK_SCHEDULER_SCHEDULES_ONE_F_ONE_B_H_

#include <vector>

#include "scheduler/program.h"

namespace pipework {

// The row of one stage replica: F, B and U. See ScheduleFn.
std::vector<Action> OneForwardOneBackward(const Program& program, StageId stage,
                                          ReplicaId replica);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_SCHEDULES_ONE_F_ONE_B_H_
