// flush and none: forward and backward each read what is newest, and there is
// one copy of the weights. A schedule that empties the pipe before each update
// (flush) never asks for an older version. An asynchronous one (none) does: its
// gradient is not that of the loss at any single point, which is why PipeDream
// stashes; it is there for comparison.
#ifndef PIPEWORK_SCHEDULER_VERSIONING_NEWEST_H_
#define PIPEWORK_SCHEDULER_VERSIONING_NEWEST_H_

#include "scheduler/versioning/policy.h"

namespace pipework {

// Lives as long as the process.
const Policy* NewestWeights();

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_VERSIONING_NEWEST_H_
