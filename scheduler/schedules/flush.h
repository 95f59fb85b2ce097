// flush: synchronous 1F1B with a flush before every update.
#ifndef PIPEWORK_SCHEDULER_SCHEDULES_FLUSH_H_
#define PIPEWORK_SCHEDULER_SCHEDULES_FLUSH_H_

#include <vector>

#include "scheduler/program.h"

namespace pipework {

// The row of one stage replica: F, B and U. See ScheduleFn.
std::vector<Action> Flush(const Program& program, StageId stage,
                          ReplicaId replica);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_SCHEDULES_FLUSH_H_
