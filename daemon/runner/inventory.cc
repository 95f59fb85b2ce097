#include "daemon/runner/inventory.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/sysinfo.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/profiler/device_kind.h"

namespace pipework {
namespace {

std::vector<int> OwnCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int64_t MemoryBytes() {
  struct sysinfo info = {};
  if (sysinfo(&info) != 0) return 0;
  return static_cast<int64_t>(info.totalram) * info.mem_unit;
}

// GPUs that the driver knows; 0 where there is no driver. The driver's library
// is looked for at run time: this program starts on machines without it.
int CudaDevices() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return 0;
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  const auto init = reinterpret_cast<Init>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<Count>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  if (init == nullptr || count == nullptr || init(0) != 0 ||
      count(&devices) != 0) {
    devices = 0;
  }
  dlclose(driver);
  return devices;
}

}  // namespace

v1::Inventory ListDevices() {
  v1::Inventory inventory;
  v1::Device* cpu = inventory.add_devices();
  cpu->set_name("cpu:0");
  cpu->set_kind(CpuDeviceKind(/*threads=*/1));
  cpu->set_usable(true);
  for (const int core : OwnCores()) cpu->add_cores(core);
  cpu->set_memory_bytes(MemoryBytes());
  const int gpus = CudaDevices();
  for (int i = 0; i < gpus; ++i) {
    v1::Device* device = inventory.add_devices();
    device->set_name(absl::StrCat("cuda:", i));
    device->set_kind("cuda");
    device->set_usable(false);
    device->set_unusable_reason(
        "this version has no layers for CUDA; stages are placed on cpu "
        "devices");
  }
  return inventory;
}

}  // namespace pipework
