#include "scheduler/planning/devices.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pipework {
namespace {

// At most, at each end of a message: a system call with its wake-up, and bytes
// through memory.
constexpr double kCallSeconds = 30e-6;
constexpr double kCopiedBytesPerSecond = 3e9;

}  // namespace

int DevicePool::Find(absl::string_view name) const {
  for (size_t d = 0; d < devices.size(); ++d) {
    if (devices[d].name == name) return static_cast<int>(d);
  }
  return -1;
}

int DevicePool::LevelBetween(int a, int b) const {
  const std::vector<int>& x = devices[a].path;
  const std::vector<int>& y = devices[b].path;
  size_t level = 0;
  while (level < x.size() && x[level] != y[level]) ++level;
  return static_cast<int>(level);
}

const Link& DevicePool::LinkBetween(int a, int b) const {
  if (!node_links.empty()) {
    const auto own =
        node_links.find(std::minmax(devices[a].node, devices[b].node));
    if (own != node_links.end()) return own->second;
  }
  return levels[LevelBetween(a, b)];
}

const Link& DevicePool::LinkOf(const std::vector<int>& members) const {
  int outermost = 0;
  for (const int d : members) {
    outermost = std::max(outermost, LevelBetween(members[0], d));
  }
  const Link* slowest = &levels[outermost];
  if (node_links.empty()) return *slowest;
  // One member of each node stands for them all.
  std::map<int, int> of_node;
  for (const int d : members) of_node.emplace(devices[d].node, d);
  slowest = nullptr;
  for (auto a = of_node.begin(); a != of_node.end(); ++a) {
    for (auto b = std::next(a); b != of_node.end(); ++b) {
      const Link& link = LinkBetween(a->second, b->second);
      if (slowest == nullptr ||
          (link.bytes_per_second > 0 &&
           (slowest->bytes_per_second <= 0 ||
            link.bytes_per_second < slowest->bytes_per_second))) {
        slowest = &link;
      }
    }
  }
  return slowest == nullptr ? levels[0] : *slowest;
}

std::vector<int> DevicePool::UniformCounts() const {
  std::vector<int> counts;
  // How many devices, nodes, .. each component holds.
  std::map<int, int> members;
  for (const PooledDevice& device : devices) ++members[device.node];
  for (size_t k = 0; k < levels.size(); ++k) {
    if (members.empty()) return {};
    const int count = members.begin()->second;
    for (const auto& [id, held] : members) {
      if (held != count) return {};
    }
    counts.push_back(count);
    if (k + 1 == levels.size()) break;
    std::map<int, std::set<int>> held;
    for (const PooledDevice& device : devices) {
      held[k + 1 < device.path.size() ? device.path[k + 1] : 0].insert(
          device.path[k]);
    }
    members.clear();
    for (const auto& [id, below] : held) {
      members[id] = static_cast<int>(below.size());
    }
  }
  while (counts.size() > 1 && counts.back() == 1) counts.pop_back();
  return counts;
}

bool DevicePool::Alike() const {
  return std::all_of(
      devices.begin(), devices.end(), [this](const PooledDevice& device) {
        return device.kind == devices[0].kind &&
               device.relative_speed == devices[0].relative_speed;
      });
}

double DevicePool::Slowdown(const std::vector<int>& members) const {
  std::vector<double> busy(groups.size(), 0);
  double slowdown = 1;
  for (const int d : members) {
    const int group = devices[d].group;
    busy[group] += 1;
    slowdown = std::max(slowdown, busy[group] / groups[group].cores);
  }
  return slowdown;
}

int64_t DevicePool::LargestMemory() const {
  int64_t largest = 0;
  for (const PooledDevice& device : devices) {
    if (device.memory_bytes == 0) return 0;
    largest = std::max(largest, device.memory_bytes);
  }
  return largest;
}

double MessageWork(const Link& link, double bytes) {
  const double call = std::min(link.latency_seconds, kCallSeconds);
  if (link.bytes_per_second <= 0) return call;
  return call + bytes / std::max(link.bytes_per_second, kCopiedBytesPerSecond);
}

DevicePool MakePool(const v1::Topology& topology, int threads) {
  DevicePool pool;
  pool.between_nodes = {topology.link_bytes_per_second(),
                        topology.link_latency_seconds()};
  pool.within_node = {topology.local_bytes_per_second(),
                      topology.local_latency_seconds()};
  pool.levels = {pool.within_node, pool.between_nodes};
  for (int k = 2; k < topology.levels_size(); ++k) {
    pool.levels.push_back({topology.levels(k).bytes_per_second(),
                           topology.levels(k).latency_seconds()});
  }
  std::map<std::string, int> kinds;
  // Components of each level by all that they are in, from the outside in.
  std::vector<std::map<std::vector<int>, int>> components(pool.levels.size());
  for (const v1::Topology::Node& node : topology.nodes()) {
    const int node_index = static_cast<int>(pool.nodes.size());
    pool.nodes.push_back(node.name());
    std::vector<int> path = {node_index};
    for (size_t k = 1; k + 1 < pool.levels.size(); ++k) {
      std::vector<int> within;
      for (size_t outer = k - 1; outer + 2 < pool.levels.size(); ++outer) {
        within.push_back(static_cast<int>(outer) < node.components_size()
                             ? node.components(static_cast<int>(outer))
                             : 0);
      }
      path.push_back(
          components[k]
              .emplace(within, static_cast<int>(components[k].size()))
              .first->second);
    }
    std::vector<std::set<int>> group_cores;  // of this node's groups
    const size_t first_group = pool.groups.size();
    for (const v1::Device& device : node.devices()) {
      const std::string name = absl::StrCat(node.name(), "/", device.name());
      if (!device.usable()) {
        pool.unusable.push_back(
            absl::StrCat(name, " (", device.unusable_reason(), ")"));
        continue;
      }
      const std::set<int> cores(device.cores().begin(), device.cores().end());
      // The first group that it shares a core with. Groups are given whole: an
      // inventory does not overlap them in chains.
      size_t group = 0;
      for (; group < group_cores.size(); ++group) {
        const bool shares = std::any_of(
            cores.begin(), cores.end(), [&group_cores, group](int core) {
              return group_cores[group].count(core) > 0;
            });
        if (shares) break;
      }
      if (group == group_cores.size()) {
        group_cores.emplace_back();
        pool.groups.push_back({node_index, 1, {}, !cores.empty()});
      }
      group_cores[group].insert(cores.begin(), cores.end());
      const int group_index = static_cast<int>(first_group + group);
      pool.groups[group_index].devices.push_back(
          static_cast<int>(pool.devices.size()));
      const auto kind =
          kinds.emplace(device.kind(), static_cast<int>(kinds.size()));
      if (kind.second) pool.kinds.push_back(device.kind());
      pool.devices.push_back(
          {name, node_index, group_index, device.memory_bytes(),
           kind.first->second,
           device.relative_speed() > 0 ? device.relative_speed() : 1, path});
    }
    for (size_t group = 0; group < group_cores.size(); ++group) {
      if (group_cores[group].empty()) continue;  // no cores named: full speed
      pool.groups[first_group + group].cores =
          static_cast<double>(group_cores[group].size()) / std::max(1, threads);
    }
  }
  std::map<absl::string_view, int> index;
  for (size_t n = 0; n < pool.nodes.size(); ++n) {
    index.emplace(pool.nodes[n], static_cast<int>(n));
  }
  for (const v1::Topology::NodeLink& link : topology.links()) {
    const auto a = index.find(link.a());
    const auto b = index.find(link.b());
    if (a == index.end() || b == index.end() || a == b) continue;
    pool.node_links[std::minmax(a->second, b->second)] = {
        link.bytes_per_second(), link.latency_seconds()};
  }
  return pool;
}

}  // namespace pipework
