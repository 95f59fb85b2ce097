// The kind of this machine's CPU devices, by which profiles are keyed.
#ifndef PIPEWORK_DAEMON_PROFILER_DEVICE_KIND_H_
#define PIPEWORK_DAEMON_PROFILER_DEVICE_KIND_H_

#include <string>

namespace pipework {

// "cpu x1 avx512" with `threads` after the x.
std::string CpuDeviceKind(int threads);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_PROFILER_DEVICE_KIND_H_
