// What a layout sends over the links of the cluster.
//
// A component of a level (a device, a node, a group of nodes) has one link to
// its neighbours, full duplex, as in ../passes/network.h: a message takes those
// of the outermost level on which its ends are apart. Replicas sum gradients in
// a ring that goes round node by node.
#ifndef PIPEWORK_SCHEDULER_PLANNING_LINK_LOADS_H_
#define PIPEWORK_SCHEDULER_PLANNING_LINK_LOADS_H_

#include <vector>

#include "proto/plan.pb.h"
#include "scheduler/planning/devices.h"
#include "scheduler/planning/workload.h"

namespace pipework {

// Seconds per minibatch for which the busiest link is taken: no step is
// shorter.
double BusiestLinkSeconds(const Workload& work, const DevicePool& pool,
                          const Layout& layout);

// The loads of links where a step takes so long, the busiest first, 64 at most:
// within each node that of its busiest device; between nodes by pairs, and
// where a node or a group of nodes talks to several others also that of the
// link which it has to all of them.
std::vector<v1::LinkLoad> LinkLoadsOf(const Workload& work,
                                      const DevicePool& pool,
                                      const Layout& layout,
                                      double step_seconds);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_LINK_LOADS_H_
