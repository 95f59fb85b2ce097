// What would make a job fit that does not.
#ifndef PIPEWORK_SCHEDULER_PLANNING_FIT_H_
#define PIPEWORK_SCHEDULER_PLANNING_FIT_H_

#include <functional>
#include <string>

#include "proto/placement.pb.h"
#include "scheduler/planning/pins.h"
#include "scheduler/planning/workload.h"

namespace pipework {

// Whether the job, changed like this, has a plan that fits. Nothing is
// simulated.
using FitsFnOfJob =
    std::function<bool(const WorkloadRequest& request, const Pins& pins,
                       const v1::Topology& topology)>;

// The changes that would help, the nearest first, each tried: fewer units in
// flight, more stages, smaller minibatches, more microbatches, schedule flush,
// twice the devices. "would fit: pipeline.in_flight 2, batch.minibatch 16";
// "tried in vain: pipeline.in_flight 1, .." where none does.
std::string NearestFit(const WorkloadRequest& request, const Pins& pins,
                       const v1::Topology& topology, int devices, int layers,
                       const FitsFnOfJob& fits);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_FIT_H_
