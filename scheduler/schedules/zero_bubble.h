// zb_h1, zb_h2: the backward split in two, so that weight gradients fill idle
// time.
#ifndef PIPEWORK_SCHEDULER_SCHEDULES_ZERO_BUBBLE_H_
#define PIPEWORK_SCHEDULER_SCHEDULES_ZERO_BUBBLE_H_

#include <vector>

#include "absl/status/status.h"
#include "scheduler/program.h"

namespace pipework {

// The row of one stage replica: F, B, W and U. See ScheduleFn.
std::vector<Action> ZeroBubbleH1(const Program& program, StageId stage,
                                 ReplicaId replica);
std::vector<Action> ZeroBubbleH2(const Program& program, StageId stage,
                                 ReplicaId replica);

// Units between F and W on a replica: p in H1, 2p - 1 in H2, on every stage of
// p.
int ZeroBubbleH1InFlight(const PipelineShape& shape, const Segment& segment,
                         StageId stage);
int ZeroBubbleH2InFlight(const PipelineShape& shape, const Segment& segment,
                         StageId stage);

// InvalidArgument: stages with different numbers of replicas.
absl::Status CheckZeroBubble(const PipelineShape& shape,
                             const Segment& segment);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_SCHEDULES_ZERO_BUBBLE_H_
