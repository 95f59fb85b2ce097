#include "daemon/node/inventory.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "daemon/base/subprocess.h"
#include "google/protobuf/text_format.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr absl::Duration kInventoryLimit = absl::Seconds(30);
constexpr size_t kMostOutput = 1 << 20;

// The number in a control group's file; 0: none, or "max".
int64_t ReadLimit(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t bytes = 0;
  if (!(file >> text) || !absl::SimpleAtoi(text, &bytes)) return 0;
  return bytes;
}

}  // namespace

std::vector<int> AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int64_t MemoryLimitBytes() {
  struct sysinfo info;
  int64_t limit = 0;
  if (::sysinfo(&info) == 0) {
    limit = static_cast<int64_t>(info.totalram) * info.mem_unit;
  }
  const auto take = [&limit](int64_t bytes) {
    if (bytes > 0 && (limit == 0 || bytes < limit)) limit = bytes;
  };
  // Version 2: every group on the way up counts. Version 1: one file.
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    if (!absl::StartsWith(line, "0::")) continue;
    std::string path = line.substr(3);
    while (!path.empty()) {
      take(ReadLimit(absl::StrCat("/sys/fs/cgroup", path, "/memory.max")));
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  take(ReadLimit("/sys/fs/cgroup/memory.max"));
  take(ReadLimit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  return limit;
}

absl::StatusOr<v1::Inventory> TakeInventory(const InventoryOptions& options) {
  Subprocess::Options child;
  child.program = options.runner;
  child.args = {"--inventory"};
  child.output_file = "-";
  ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process,
                   Subprocess::Spawn(std::move(child)));
  const UniqueFd output = process->TakeOutput();
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(output.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || text.size() > kMostOutput) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  ASSIGN_OR_RETURN(const int status,
                   process->Wait(MonotonicNow() + kInventoryLimit));
  v1::Inventory found;
  if (status != 0 ||
      !google::protobuf::TextFormat::ParseFromString(text, &found)) {
    return absl::UnavailableError(absl::StrCat(
        options.runner, " --inventory: ", DescribeWaitStatus(status),
        ", expected an inventory; it said: ", text.substr(0, 500)));
  }

  const std::vector<int> cores =
      options.cores.empty() ? AllowedCores() : options.cores;
  const int64_t memory =
      options.memory_bytes > 0 ? options.memory_bytes : MemoryLimitBytes();
  v1::Inventory inventory;
  for (const v1::Device& device : found.devices()) {
    if (!absl::StartsWith(device.name(), "cpu")) {
      *inventory.add_devices() = device;
      continue;
    }
    // The first one tells what the processor is; how many, the options say.
    if (inventory.devices_size() > 0 &&
        absl::StartsWith(inventory.devices(0).name(), "cpu")) {
      continue;
    }
    for (int i = 0; i < options.devices; ++i) {
      v1::Device* cpu = inventory.add_devices();
      *cpu = device;
      cpu->set_name(absl::StrCat("cpu:", i));
      cpu->clear_cores();
      for (int core : cores) cpu->add_cores(core);
      cpu->set_memory_bytes(memory / options.devices);
      if (!options.kind.empty()) cpu->set_kind(options.kind);
    }
  }
  if (inventory.devices_size() == 0) {
    return absl::UnavailableError(absl::StrCat(
        options.runner, " --inventory: lists no device, expected one"));
  }
  return inventory;
}

}  // namespace pipework
