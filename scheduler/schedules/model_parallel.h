// model_parallel: one minibatch at a time, no pipelining.
#ifndef PIPEWORK_SCHEDULER_SCHEDULES_MODEL_PARALLEL_H_
#define PIPEWORK_SCHEDULER_SCHEDULES_MODEL_PARALLEL_H_

#include <vector>

#include "absl/status/status.h"
#include "scheduler/program.h"

namespace pipework {

// The row of one stage replica: F, B and U. See ScheduleFn.
std::vector<Action> ModelParallel(const Program& program, StageId stage,
                                  ReplicaId replica);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_SCHEDULES_MODEL_PARALLEL_H_
