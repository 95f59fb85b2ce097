// What it costs to hand a tensor from one executor to the next one on the same
// node: sending, waking the other thread, receiving.
#ifndef PIPEWORK_DAEMON_PROFILER_HAND_OVER_H_
#define PIPEWORK_DAEMON_PROFILER_HAND_OVER_H_

#include "absl/status/statusor.h"

namespace pipework {

// Median seconds of one hand-over between two threads that run where the
// calling one may run. Takes some 10 ms.
absl::StatusOr<double> HandOverSeconds();

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_PROFILER_HAND_OVER_H_
