#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/planning/devices.h"
#include "scheduler/planning/planning.h"
#include "scheduler/planning/topology.h"

namespace pipework {
namespace {

// The devices that the plan names; empty where it names none.
absl::StatusOr<std::vector<std::vector<int>>> NamedSeats(
    const v1::Plan& plan, const DevicePool& pool) {
  std::vector<std::vector<int>> seats;
  std::set<int> used;
  for (int s = 0; s < plan.stages_size(); ++s) {
    const v1::PlanStage& stage = plan.stages(s);
    if (stage.devices().empty()) return std::vector<std::vector<int>>{};
    const std::string who = absl::StrCat("placement: stage ", s);
    if (stage.devices_size() != stage.replicas()) {
      return absl::FailedPreconditionError(MismatchText(
          who, "its number of devices", absl::StrCat(stage.devices_size()),
          absl::StrCat(stage.replicas(), ", one each replica")));
    }
    seats.emplace_back();
    for (const std::string& name : stage.devices()) {
      const int device = pool.Find(name);
      if (device < 0 || !used.insert(device).second) {
        return absl::FailedPreconditionError(
            MismatchText(who, "its device", absl::StrCat("\"", name, "\""),
                         device < 0 ? "a usable device of the cluster"
                                    : "a device that no other replica has",
                         "plan the job again"));
      }
      seats.back().push_back(device);
    }
  }
  return seats;
}

}  // namespace

absl::StatusOr<v1::Placement> Place(
    const v1::Plan& plan, const v1::Topology& topology,
    const std::vector<std::string>& data_nodes) {
  v1::Topology expanded;
  if (topology.nodes().empty() && topology.levels_size() > 0) {
    ASSIGN_OR_RETURN(expanded, ExpandTopology(topology));
  }
  const DevicePool pool =
      MakePool(expanded.nodes().empty() ? topology : expanded, 1);
  if (plan.stages().empty()) {
    return absl::FailedPreconditionError(
        MismatchText("placement", "the number of stages", "0", "1 or more"));
  }
  ASSIGN_OR_RETURN(std::vector<std::vector<int>> seats, NamedSeats(plan, pool));
  const bool kept =
      !seats.empty() &&
      (data_nodes.empty() ||
       std::all_of(seats[0].begin(), seats[0].end(), [&](int device) {
         const std::string& node = pool.nodes[pool.devices[device].node];
         return std::find(data_nodes.begin(), data_nodes.end(), node) !=
                data_nodes.end();
       }));
  if (!kept) {
    std::vector<SeatRequest> requests;
    for (const v1::PlanStage& stage : plan.stages()) {
      SeatRequest request;
      request.replicas = std::max(1, stage.replicas());
      request.seconds = (stage.forward_seconds() + stage.backward_seconds()) /
                        request.replicas;
      requests.push_back(request);
    }
    ASSIGN_OR_RETURN(seats, AssignSeats(pool, requests, data_nodes));
  }

  v1::Placement placement;
  for (size_t s = 0; s < seats.size(); ++s) {
    for (size_t q = 0; q < seats[s].size(); ++q) {
      const PooledDevice& device = pool.devices[seats[s][q]];
      const std::string& node = pool.nodes[device.node];
      v1::Seat* seat = placement.add_seats();
      seat->set_stage(static_cast<int>(s));
      seat->set_replica(static_cast<int>(q));
      seat->set_node(node);
      seat->set_device(device.name.substr(node.size() + 1));
    }
  }
  return placement;
}

}  // namespace pipework
