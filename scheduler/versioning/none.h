// none: forward and backward read what is newest, naive asynchrony.
#ifndef PIPEWORK_SCHEDULER_VERSIONING_NONE_H_
#define PIPEWORK_SCHEDULER_VERSIONING_NONE_H_

#include "scheduler/versioning/policy.h"

namespace pipework {

// Lives as long as the process.
const Policy* NoStashing();

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_VERSIONING_NONE_H_
