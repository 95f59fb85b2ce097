#include "scheduler/planning/link_loads.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/compile.h"
#include "scheduler/program.h"

namespace pipework {
namespace {

// Pairs of replicas that are looked at one by one; beyond, a sample of them.
constexpr int64_t kMostPairs = 4096;
// Links of a plan that are shown.
constexpr size_t kMostLinks = 64;

// Of one minibatch, in one direction.
struct Use {
  double bytes = 0;
  double seconds = 0;

  void Add(double more_bytes, const Link& link) {
    bytes += more_bytes;
    if (link.bytes_per_second > 0)
      seconds += more_bytes / link.bytes_per_second;
  }
  bool operator<(const Use& other) const {
    return std::tie(seconds, bytes) < std::tie(other.seconds, other.bytes);
  }
};

struct Traffic {
  // By level, component and whether it is what the component sends.
  std::map<std::tuple<int, int, bool>, Use> links;
  std::map<std::pair<int, int>, Use> pairs;  // from one node to another
  // By level and component: what it talks to.
  std::map<std::pair<int, int>, std::set<int>> peers;
};

int ComponentOf(const DevicePool& pool, int device, int level) {
  return level == 0 ? device : pool.devices[device].path[level - 1];
}

void Send(const DevicePool& pool, int from, int to, double bytes,
          Traffic* traffic) {
  if (from == to || bytes <= 0) return;
  const int level = pool.LevelBetween(from, to);
  const Link& link = pool.LinkBetween(from, to);
  const int a = ComponentOf(pool, from, level);
  const int b = ComponentOf(pool, to, level);
  traffic->links[{level, a, true}].Add(bytes, link);
  traffic->links[{level, b, false}].Add(bytes, link);
  if (level == 0) return;
  traffic->peers[{level, a}].insert(b);
  traffic->peers[{level, b}].insert(a);
  traffic->pairs[{pool.devices[from].node, pool.devices[to].node}].Add(bytes,
                                                                       link);
}

void AddMessages(const Workload& work, const DevicePool& pool,
                 const Layout& layout, const PipelineShape& shape,
                 Traffic* traffic) {
  const std::vector<StageEdge> edges = EdgesOf(shape);
  const std::vector<int64_t> bytes = EdgeBytes(work, layout.cuts);
  // The device of each unit of a round, by stage.
  std::vector<std::vector<int>> seat_of;
  for (int s = 0; s < shape.stages(); ++s) {
    seat_of.push_back(TurnsOf(shape, StageId{s}));
    for (int& turn : seat_of.back()) turn = layout.seats[s][turn];
  }
  for (size_t e = 0; e < edges.size(); ++e) {
    const std::vector<int>& from = seat_of[edges[e].from.value()];
    const std::vector<int>& to = seat_of[edges[e].to.value()];
    const int64_t turns =
        std::min(kMostPairs, std::lcm(int64_t{shape.round(edges[e].from)},
                                      int64_t{shape.round(edges[e].to)}));
    const double each = static_cast<double>(bytes[e]) * work.microbatches /
                        static_cast<double>(turns);
    for (int64_t turn = 0; turn < turns; ++turn) {
      const int a = from[turn % from.size()];
      const int b = to[turn % to.size()];
      Send(pool, a, b, each, traffic);
      if (edges[e].has_gradient) Send(pool, b, a, each, traffic);
    }
  }
}

void AddAllReduces(const Workload& work, const DevicePool& pool,
                   const Layout& layout, const PipelineShape& shape,
                   Traffic* traffic) {
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    const StageCut& cut = layout.cuts[s];
    if (cut.replicas == 1) continue;
    double weights = 0;
    for (int l = cut.first; l <= cut.last; ++l) weights += work.WeightBytes(l);
    const double updates =
        work.unit_is_microbatch
            ? 1
            : 1.0 / shape.round(StageId{static_cast<int>(s)});
    const double each =
        2.0 * updates * weights * (cut.replicas - 1) / cut.replicas;
    std::vector<int> ring = layout.seats[s];
    // Devices are numbered node by node.
    std::sort(ring.begin(), ring.end());
    for (size_t i = 0; i < ring.size(); ++i) {
      Send(pool, ring[i], ring[(i + 1) % ring.size()], each, traffic);
    }
  }
}

Traffic TrafficOf(const Workload& work, const DevicePool& pool,
                  const Layout& layout) {
  const PipelineShape shape = ShapeOfLayout(work, layout);
  Traffic traffic;
  AddMessages(work, pool, layout, shape, &traffic);
  AddAllReduces(work, pool, layout, shape, &traffic);
  return traffic;
}

// "n1", or "group of n3" above nodes.
std::string NameOf(const DevicePool& pool, int level, int component) {
  for (const PooledDevice& device : pool.devices) {
    if (device.path[level - 1] != component) continue;
    return level == 1 ? pool.nodes[device.node]
                      : absl::StrCat("group of ", pool.nodes[device.node]);
  }
  return "";
}

}  // namespace

double BusiestLinkSeconds(const Workload& work, const DevicePool& pool,
                          const Layout& layout) {
  double seconds = 0;
  for (const auto& [link, use] : TrafficOf(work, pool, layout).links) {
    seconds = std::max(seconds, use.seconds);
  }
  return seconds;
}

std::vector<v1::LinkLoad> LinkLoadsOf(const Workload& work,
                                      const DevicePool& pool,
                                      const Layout& layout,
                                      double step_seconds) {
  const Traffic traffic = TrafficOf(work, pool, layout);
  std::vector<v1::LinkLoad> loads;
  const auto add = [&](const std::string& from, const std::string& to,
                       const Use& use) {
    if (use.bytes <= 0) return;
    v1::LinkLoad load;
    load.set_from(from);
    load.set_to(to);
    load.set_bytes_per_second(step_seconds > 0 ? use.bytes / step_seconds : 0);
    // Of links of different speed: what they carried it with.
    load.set_limit_bytes_per_second(use.seconds > 0 ? use.bytes / use.seconds
                                                    : 0);
    loads.push_back(std::move(load));
  };
  std::map<int, Use> within;                      // by node
  std::map<std::pair<int, int>, Use> components;  // by level and component
  for (const auto& [link, use] : traffic.links) {
    const auto& [level, component, sends] = link;
    Use& busier = level == 0 ? within[pool.devices[component].node]
                             : components[{level, component}];
    busier = std::max(busier, use);
  }
  for (const auto& [node, use] : within) {
    add(pool.nodes[node], pool.nodes[node], use);
  }
  for (const auto& [component, use] : components) {
    if (traffic.peers.at(component).size() < 2) continue;
    add(NameOf(pool, component.first, component.second), "others", use);
  }
  std::map<std::pair<int, int>, Use> pairs;  // the busier direction
  for (const auto& [ends, use] : traffic.pairs) {
    Use& busier = pairs[std::minmax(ends.first, ends.second)];
    busier = std::max(busier, use);
  }
  for (const auto& [ends, use] : pairs) {
    add(pool.nodes[ends.first], pool.nodes[ends.second], use);
  }
  // Links without a limit are never busy.
  const auto share = [](const v1::LinkLoad& load) {
    return load.limit_bytes_per_second() > 0
               ? load.bytes_per_second() / load.limit_bytes_per_second()
               : 0;
  };
  std::stable_sort(loads.begin(), loads.end(),
                   [&share](const v1::LinkLoad& a, const v1::LinkLoad& b) {
                     return share(a) > share(b);
                   });
  if (loads.size() > kMostLinks) loads.resize(kMostLinks);
  return loads;
}

}  // namespace pipework
