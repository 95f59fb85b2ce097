// two_version: PipeDream-2BW, double-buffered weights without a flush.
#ifndef PIPEWORK_SCHEDULER_SCHEDULES_TWO_VERSION_H_
#define PIPEWORK_SCHEDULER_SCHEDULES_TWO_VERSION_H_

#include <vector>

#include "absl/status/status.h"
#include "scheduler/program.h"

namespace pipework {

// The row of one stage replica: F, B and U. See ScheduleFn.
std::vector<Action> TwoVersion(const Program& program, StageId stage,
                               ReplicaId replica);

// InvalidArgument: fewer microbatches in an update than are in flight. With m
// below the depth d a microbatch could ask for a version that does not exist
// yet. Or microbatches that the replicas of a stage do not divide.
absl::Status CheckTwoVersion(const PipelineShape& shape,
                             const Segment& segment);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_SCHEDULES_TWO_VERSION_H_
