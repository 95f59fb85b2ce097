// Small jobs, profiles and clusters for tests of planning.
#ifndef PIPEWORK_SCHEDULER_TESTING_JOBS_H_
#define PIPEWORK_SCHEDULER_TESTING_JOBS_H_

#include <string>
#include <vector>

#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "proto/placement.pb.h"
#include "proto/profile.pb.h"

namespace pipework {
namespace testing {

// A chain l0, l1, .. whose last layer is the loss.
v1::Graph ChainGraph(int layers);

// Profile of `graph` for units of 8 samples: layer l takes seconds[l], a third
// forward and the rest backward; `bytes` of output and of weights each.
v1::Profile ProfileOf(const v1::Graph& graph,
                      const std::vector<double>& seconds, int64_t bytes = 0);

// n1..nN with cpu:0..; each device has a core of its own, or all devices of a
// node share `cores_per_node` cores. Links are free.
v1::Topology Cluster(int nodes, int devices_per_node, int cores_per_node = 0);

// Minibatches of 8 samples, sgd, schedule 1f1b.
v1::JobSpec SpecOf(int stage_count = 0);

}  // namespace testing
}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_TESTING_JOBS_H_
