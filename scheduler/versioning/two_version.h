// two_version: every microbatch reads the weights of one update before.
#ifndef PIPEWORK_SCHEDULER_VERSIONING_TWO_VERSION_H_
#define PIPEWORK_SCHEDULER_VERSIONING_TWO_VERSION_H_

#include "scheduler/versioning/policy.h"

namespace pipework {

// Lives as long as the process.
const Policy* TwoVersions();

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_VERSIONING_TWO_VERSION_H_
