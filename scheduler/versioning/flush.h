// flush: one version, because nothing is in flight when it changes.
#ifndef PIPEWORK_SCHEDULER_VERSIONING_FLUSH_H_
#define PIPEWORK_SCHEDULER_VERSIONING_FLUSH_H_

#include "scheduler/versioning/policy.h"

namespace pipework {

// Lives as long as the process.
const Policy* FlushWeights();

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_VERSIONING_FLUSH_H_
