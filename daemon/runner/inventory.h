// The devices of this machine, as `pipe-runner --inventory` prints them.
#ifndef PIPEWORK_DAEMON_RUNNER_INVENTORY_H_
#define PIPEWORK_DAEMON_RUNNER_INVENTORY_H_

#include "proto/node.pb.h"

namespace pipework {

// cpu:0 with the cores that this process may use; a node's options say into how
// many devices they are cut. Then cuda:N where a CUDA driver is there; those
// are listed and not usable by this version.
v1::Inventory ListDevices();

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_INVENTORY_H_
