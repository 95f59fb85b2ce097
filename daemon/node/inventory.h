// Which devices a node offers: cpu:N by its options, whatever else
// `pipe-runner --inventory` finds.
#ifndef PIPEWORK_DAEMON_NODE_INVENTORY_H_
#define PIPEWORK_DAEMON_NODE_INVENTORY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/node.pb.h"

namespace pipework {

struct InventoryOptions {
  std::string runner;      // path of pipe-runner
  int devices = 1;         // cpu devices
  std::vector<int> cores;  // that they share; empty: all
  int64_t memory_bytes = 0;
  std::string kind;  // of the cpu devices; empty: what the runner finds
};

// Runs `runner --inventory` and shares the machine's memory among the cpu
// devices. Unavailable: the program failed; its output is in the message.
absl::StatusOr<v1::Inventory> TakeInventory(const InventoryOptions& options);

// Cores that this process may use.
std::vector<int> AllowedCores();
// The smaller of the machine's memory and the limits of the control groups
// this process is in.
int64_t MemoryLimitBytes();

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_NODE_INVENTORY_H_
