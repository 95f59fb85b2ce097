// interleaved: 1F1B over several chunks of layers on each stage.
#ifndef PIPEWORK_SCHEDULER_SCHEDULES_INTERLEAVED_H_
#define PIPEWORK_SCHEDULER_SCHEDULES_INTERLEAVED_H_

#include <vector>

#include "absl/status/status.h"
#include "scheduler/program.h"

namespace pipework {

// The row of one stage replica: F and B of chunks, and U. See ScheduleFn.
std::vector<Action> Interleaved(const Program& program, StageId stage,
                                ReplicaId replica);

// Pairs of microbatch and chunk in flight.
int InterleavedInFlight(const PipelineShape& shape, const Segment& segment,
                        StageId stage);

// InvalidArgument: microbatches that are no multiple of the stages, or stages
// with different numbers of replicas.
absl::Status CheckInterleaved(const PipelineShape& shape,
                              const Segment& segment);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_SCHEDULES_INTERLEAVED_H_
