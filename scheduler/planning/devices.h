// The usable devices of a topology, which of them share cores, and who sits
// where.
#ifndef PIPEWORK_SCHEDULER_PLANNING_DEVICES_H_
#define PIPEWORK_SCHEDULER_PLANNING_DEVICES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "partitioner/cost_model.h"
#include "proto/placement.pb.h"

namespace pipework {

// Devices of one node that compute on the same cores. A GPU is alone.
struct CoreGroup {
  int node = 0;
  double cores = 1;  // how many devices it runs at full speed at once
  std::vector<int> devices;
  bool copies = false;  // its cores also move the messages of its devices
};

struct PooledDevice {
  std::string name;  // n1/cpu:0
  int node = 0;
  int group = 0;
  int64_t memory_bytes = 0;   // 0: unknown
  int kind = 0;               // into DevicePool::kinds
  double relative_speed = 1;  // 2: twice as fast as the profiled one
  // What it is in on each level: path[0] its node, path[1] the group of nodes
  // and so on up to the whole cluster, which is left out. Numbers are unique
  // on their level.
  std::vector<int> path;
};

// Pure data; devices in the order of nodes, then of the node's list.
struct DevicePool {
  std::vector<std::string> nodes;
  std::vector<PooledDevice> devices;  // usable ones only
  std::vector<CoreGroup> groups;
  std::vector<std::string> unusable;  // "n1/cuda:0 (reason)"
  std::vector<std::string> kinds;     // of devices, in order of appearance
  Link between_nodes;
  Link within_node;
  // From the inside out: within a node, between nodes, between groups of nodes
  // and so on; two at least.
  std::vector<Link> levels;
  // Pairs of nodes, the lower index first, with a link of their own.
  std::map<std::pair<int, int>, Link> node_links;

  int size() const { return static_cast<int>(devices.size()); }
  // Index of a device by name, -1 if it is not there or not usable.
  int Find(absl::string_view name) const;
  // The level on which two devices are joined: 0 on one node, 1 on two nodes
  // of one group, and so on.
  int LevelBetween(int a, int b) const;
  // The link between two devices: that of their level, unless their nodes have
  // one of their own.
  const Link& LinkBetween(int a, int b) const;
  // The slowest of the links that join these devices: that of the outermost
  // level, or a pair of nodes' own where that is slower.
  const Link& LinkOf(const std::vector<int>& devices) const;
  // How many components of the level below make one of each level, from the
  // inside out ({4, 2}: two nodes of four devices; levels of one component in
  // all are left out but for the first); empty where they differ.
  std::vector<int> UniformCounts() const;
  // Whether all devices are of one kind and speed.
  bool Alike() const;
  // How much slower each of `devices` is when all of them compute.
  double Slowdown(const std::vector<int>& devices) const;
  // The largest memory limit of all devices; 0 when any is unknown.
  int64_t LargestMemory() const;
};

// What a processor spends at each end of a message that `link` carries: the
// call, and copying at memory speed. The rest of link.Seconds() is waiting.
double MessageWork(const Link& link, double bytes);

// `threads` is what each executor computes with. Links to unknown nodes are
// left out. REQUIRES: nodes are listed (see ExpandTopology).
DevicePool MakePool(const v1::Topology& topology, int threads);

// A stage that wants seats.
struct SeatRequest {
  // Of computing per minibatch, on each replica of relative speed 1.
  double seconds = 0;
  // The same by kind of device, where kinds have profiles; else empty.
  std::vector<double> kind_seconds;
  int replicas = 1;
  std::vector<int> pinned;  // devices, one for each replica, or empty
  // What the messages with the stage before cost each of the two stages per
  // minibatch, where they sit on one node and where they do not.
  double near_seconds = 0;
  double apart_seconds = 0;
};

// Devices for each replica of each stage, each used once: group loads balanced
// first (within 5 %), then replicas of a stage and neighbours close together
// in the hierarchy, then in order. Stage 0 sits on `data_nodes` (empty:
// anywhere). Few seats on few devices are tried in every arrangement; many are
// laid out by rule, in time proportional to devices x stages.
// FailedPrecondition: more seats than devices, or than devices on data nodes.
// REQUIRES: pinned devices are valid and distinct.
absl::StatusOr<std::vector<std::vector<int>>> AssignSeats(
    const DevicePool& pool, const std::vector<SeatRequest>& stages,
    const std::vector<std::string>& data_nodes);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_DEVICES_H_
