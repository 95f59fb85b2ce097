// Why a plan is as fast as it is, what its pins cost, and what would make it
// faster: each tried by planning again with the change.
#ifndef PIPEWORK_SCHEDULER_PLANNING_EXPLAIN_H_
#define PIPEWORK_SCHEDULER_PLANNING_EXPLAIN_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/placement.pb.h"
#include "proto/plan.pb.h"
#include "scheduler/planning/candidates.h"

namespace pipework {

// The plan of a changed job or cluster, without rivals and explanations.
using ReplanFn = std::function<absl::StatusOr<v1::Plan>(
    const v1::JobSpec& spec, const v1::Topology& topology)>;

// For each pin of `spec` the step without it, never longer than the plan's own:
// a plan with the pin is one without it, too.
std::vector<v1::PinCost> PinCosts(const v1::JobSpec& spec,
                                  const v1::Topology& topology,
                                  const v1::Plan& plan, const ReplanFn& replan);

// Where the bottleneck is and why, what fills the rest of the step, and which
// stages are close to their memory limit.
std::vector<std::string> Explanation(const Candidate& candidate,
                                     const v1::Plan& plan);

// Changes that make the step at least 1 % shorter, the best first. Steps of
// other minibatch sizes are given for as many samples as the plan's minibatch
// has.
std::vector<v1::Improvement> Improvements(const v1::JobSpec& spec,
                                          const v1::Topology& topology,
                                          const v1::Plan& plan,
                                          const ReplanFn& replan);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_EXPLAIN_H_
