// What Simulate refuses before it starts.
#ifndef PIPEWORK_SCHEDULER_PASSES_CHECK_TIMES_H_
#define PIPEWORK_SCHEDULER_PASSES_CHECK_TIMES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/passes/simulate.h"

namespace pipework {

// InvalidArgument: a list has another length than it needs, or a number is
// negative or none.
absl::Status CheckTimes(const Program& program, const ActionTimes& times);

// The chunks of a stage. InvalidArgument: the rows are not those of the shape,
// or an action names a stage, a replica or a chunk that there is not.
absl::StatusOr<int> CountChunks(const Program& program);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_CHECK_TIMES_H_
