// The devices of this machine, as a node registers them.
#ifndef PIPEWORK_DAEMON_RUNNER_INVENTORY_H_
#define PIPEWORK_DAEMON_RUNNER_INVENTORY_H_

#include <vector>

#include "proto/node.pb.h"

namespace pipework {

struct InventoryOptions {
  // Cores that the CPU devices compute on; empty: those that this process may
  // run on.
  std::vector<int> cores;
  // CPU devices; 0: one for each core. More devices than cores share them.
  int cpu_devices = 0;
  // Threads that an executor computes with: part of the device's kind.
  int threads = 1;
};

// CPU devices cpu:0, cpu:1, ... and, where a CUDA driver is there, cuda:N,
// which are listed and not usable by this version.
v1::Inventory TakeInventory(const InventoryOptions& options);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_INVENTORY_H_
