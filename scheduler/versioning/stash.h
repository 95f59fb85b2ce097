// stash: a backward reads again the weights that its forward read.
#ifndef PIPEWORK_SCHEDULER_VERSIONING_STASH_H_
#define PIPEWORK_SCHEDULER_VERSIONING_STASH_H_

#include "scheduler/versioning/policy.h"

namespace pipework {

// Lives as long as the process.
const Policy* Stashing();

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_VERSIONING_STASH_H_
