// Spec + graph + profile + topology -> plan with its rivals, and placement.
// `pipectl plan` and the coordinator both call this. Pure.
#ifndef PIPEWORK_SCHEDULER_PLANNING_PLANNING_H_
#define PIPEWORK_SCHEDULER_PLANNING_PLANNING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "proto/placement.pb.h"
#include "proto/plan.pb.h"
#include "proto/profile.pb.h"

namespace pipework {

struct PlanningOptions {
  std::string cost_model = "pipework";
  int alternatives = 0;
};

// The best plan for the devices in `topology` (usable ones only), pins of
// spec.pipeline obeyed. One device, one executor. Device names, seconds,
// bytes and prediction are filled in.
// FailedPrecondition (INFEASIBLE): more devices or memory needed than there
// are; the message has the numbers and the nearest change that would fit.
// InvalidArgument: pins that contradict each other or the graph.
absl::StatusOr<v1::Plan> PlanJob(const v1::JobSpec& spec,
                                 const v1::Graph& graph,
                                 const v1::Profile& profile,
                                 const v1::Topology& topology,
                                 const PlanningOptions& options);

// Seats for the plan's stages in `topology`. Stage 0 goes to one of
// `data_nodes` (empty: any).
absl::StatusOr<v1::Placement> Place(const v1::Plan& plan,
                                    const v1::Topology& topology,
                                    const std::vector<std::string>& data_nodes);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_PLANNING_H_
