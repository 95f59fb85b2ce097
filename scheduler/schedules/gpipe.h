// gpipe: every forward, then every backward, then the update.
#ifndef PIPEWORK_SCHEDULER_SCHEDULES_GPIPE_H_
#define PIPEWORK_SCHEDULER_SCHEDULES_GPIPE_H_

#include <vector>

#include "absl/status/status.h"
#include "scheduler/program.h"

namespace pipework {

// The row of one stage replica: F, B and U. See ScheduleFn.
std::vector<Action> Gpipe(const Program& program, StageId stage,
                          ReplicaId replica);

// All of a replica's microbatches of a minibatch are in flight at once.
int GpipeInFlight(const PipelineShape& shape, const Segment& segment,
                  StageId stage);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_SCHEDULES_GPIPE_H_
