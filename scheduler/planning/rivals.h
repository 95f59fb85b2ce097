// Other ways to run a job on the same devices, for comparison.
#ifndef PIPEWORK_SCHEDULER_PLANNING_RIVALS_H_
#define PIPEWORK_SCHEDULER_PLANNING_RIVALS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "scheduler/planning/candidates.h"

namespace pipework {

// The same job with another schedule, weights, microbatches or depth.
using WorkloadFn =
    std::function<absl::StatusOr<Workload>(const WorkloadRequest& request)>;

// One device, data parallel, model parallel without pipelining, a straight
// pipeline, hybrid (replicated front, split back, no pipelining), GPipe and
// flush at several numbers of microbatches, two versions: each compiled with
// its own schedule and simulated on the devices of `planner`. A way whose
// schedule is not there is left out; one that does not fit says why.
std::vector<v1::Rival> Rivals(const Planner& planner,
                              const WorkloadRequest& request,
                              const WorkloadFn& workload);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_RIVALS_H_
