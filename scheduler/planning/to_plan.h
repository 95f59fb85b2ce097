// A candidate as the message that users see.
#ifndef PIPEWORK_SCHEDULER_PLANNING_TO_PLAN_H_
#define PIPEWORK_SCHEDULER_PLANNING_TO_PLAN_H_

#include <cstdint>

#include "proto/plan.pb.h"
#include "scheduler/planning/candidates.h"

namespace pipework {

// Stages with devices, seconds and bytes, prediction, bottleneck and the load
// of links.
v1::Plan ToPlan(const Candidate& candidate);

// Over all devices of the plan, and on the fullest one.
int64_t TotalBytes(const v1::Plan& plan);
int64_t LargestBytes(const v1::Plan& plan);

// Largest staleness of a stage, in updates.
double LargestStaleness(const v1::Plan& plan);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_TO_PLAN_H_
