// vertical_sync: one version on all stages for each minibatch.
#ifndef PIPEWORK_SCHEDULER_VERSIONING_VERTICAL_SYNC_H_
#define PIPEWORK_SCHEDULER_VERSIONING_VERTICAL_SYNC_H_

#include "scheduler/versioning/policy.h"

namespace pipework {

// Lives as long as the process.
const Policy* VerticalSync();

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_VERSIONING_VERTICAL_SYNC_H_
