#include "daemon/profiler/device_kind.h"

#include "kernels/backend_registry.h"

namespace pipework {

std::string CpuDeviceKind(int threads) { return CpuKind(threads); }

}  // namespace pipework
