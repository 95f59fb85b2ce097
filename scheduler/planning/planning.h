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
#include "scheduler/planning/predict.h"

namespace pipework {

struct PlanningOptions {
  std::string cost_model = "pipework";
  // Next best plans to add.
  int alternatives = 0;
  // Nodes that can read the data; stage 0 sits on them. Empty: any.
  std::vector<std::string> data_nodes;
  // Rivals, other depths and what pins cost: a simulation or a plan each.
  bool rivals = true;
  // What would fit where nothing does, in the error.
  bool advice = true;
  // Why the bottleneck is where it is, and what would move it.
  bool explain = false;
  // Of further kinds of devices; those of other kinds are scaled by their
  // relative speed.
  std::vector<v1::Profile> other_profiles;
  // At most so many stages; 0: any number.
  int max_stages = 0;
  // One replica of each stage.
  bool straight = false;
  // Cost models paper and public_code may leave devices idle.
  bool use_fewer_devices = false;
  // Bytes of a device that may be used; 0: all.
  int64_t memory_limit = 0;
  // A quick look: automatic stages are about so many; 0: any number.
  int near_stages = 0;
};

// The best plan for the devices in `topology` (usable ones only), pins of
// spec.pipeline obeyed. One device, one executor. Device names, seconds,
// bytes and prediction are filled in.
//
// Candidates come from the partitioner; each is compiled and simulated on its
// devices, and the shortest step wins, on fewer devices where that is as good.
// With cost model `paper` the recurrences' own answer over all devices is
// taken. With pinned stages only their devices are chosen.
// FailedPrecondition (INFEASIBLE): more devices, layers or memory needed than
// there are; the message has the numbers and the changes that would fit, each
// tried.
// InvalidArgument: pins that contradict each other or the graph, a profile of
// another graph. NotFound: unknown cost model, schedule or policy.
// `timeline`, where it is given: what its devices do in some steps.
absl::StatusOr<v1::Plan> PlanJob(const v1::JobSpec& spec,
                                 const v1::Graph& graph,
                                 const v1::Profile& profile,
                                 const v1::Topology& topology,
                                 const PlanningOptions& options,
                                 PlannedTimeline* timeline = nullptr);

// Seats for the plan's stages in `topology`: the devices that the plan names,
// where it names them and stage 0 sits on one of `data_nodes` (empty: any);
// else chosen again, balanced and neighbours together.
// FailedPrecondition: a named device is not there or not usable, a device is
// named twice, or there are too few devices.
absl::StatusOr<v1::Placement> Place(const v1::Plan& plan,
                                    const v1::Topology& topology,
                                    const std::vector<std::string>& data_nodes);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_PLANNING_H_
