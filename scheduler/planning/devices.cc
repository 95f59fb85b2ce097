#include "scheduler/planning/devices.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/errors.h"

namespace pipework {
namespace {

// Most seats for which every arrangement is looked at.
constexpr size_t kSearchedSeats = 8;
// Loads closer than this are as good as equal.
constexpr double kSameLoad = 1.05;
// At most, at each end of a message: a system call with its wake-up, and bytes
// through memory.
constexpr double kCallSeconds = 30e-6;
constexpr double kCopiedBytesPerSecond = 3e9;

struct Seat {
  int stage;
  double seconds;
  int pinned;  // device, or -1
  // Between this seat and one of the stage before, at each end.
  double near_seconds;
  double apart_seconds;
};

// Looks for the arrangement with the smallest load, then the one with the
// fewest neighbours apart whose load is not much larger.
class Search {
 public:
  Search(const DevicePool& pool, std::vector<Seat> seats,
         const std::vector<bool>& holds_data)
      : pool_(pool),
        seats_(std::move(seats)),
        holds_data_(holds_data),
        taken_(pool.devices.size(), false),
        group_seconds_(pool.groups.size(), 0),
        node_seats_(pool.nodes.size(), 0),
        chosen_(seats_.size(), -1) {
    for (const Seat& seat : seats_) {
      if (seat.pinned >= 0) taken_[seat.pinned] = true;
    }
    for (size_t node = 0; node < pool.nodes.size(); ++node) {
      std::string shape = holds_data[node] ? "data" : "";
      for (const CoreGroup& group : pool.groups) {
        if (group.node == static_cast<int>(node)) {
          absl::StrAppend(&shape, " ", group.devices.size(), "/", group.cores);
        }
      }
      node_shape_.push_back(shape);
    }
  }

  // Empty when nothing fits.
  std::vector<int> Run() {
    limit_ = std::numeric_limits<double>::infinity();
    count_apart_ = false;
    Place(0, 0, 0);
    if (best_.empty()) return best_;
    limit_ = best_load_ * kSameLoad;
    count_apart_ = true;
    best_apart_ = std::numeric_limits<int>::max();
    Place(0, 0, 0);
    return best_;
  }

 private:
  void Place(size_t index, double load, int apart) {
    if (count_apart_ ? apart >= best_apart_ : load >= limit_) return;
    if (index == seats_.size()) {
      best_ = chosen_;
      if (count_apart_) {
        best_apart_ = apart;
      } else {
        best_load_ = load;
        limit_ = load;  // only better ones from here
      }
      return;
    }
    const Seat& seat = seats_[index];
    std::set<std::tuple<int, std::string, int>> tried;
    for (size_t device = 0; device < pool_.devices.size(); ++device) {
      const PooledDevice& candidate = pool_.devices[device];
      if (seat.pinned >= 0) {
        if (static_cast<int>(device) != seat.pinned) continue;
      } else {
        if (taken_[device]) continue;
        if (seat.stage == 0 && !holds_data_[candidate.node]) continue;
        // Groups and nodes that nobody has touched are all alike.
        const bool fresh_node = node_seats_[candidate.node] == 0;
        const bool fresh_group = group_seconds_[candidate.group] == 0;
        const auto kind = std::make_tuple(
            fresh_node ? -1 : candidate.node,
            absl::StrCat(fresh_node ? node_shape_[candidate.node] : "", ":",
                         pool_.groups[candidate.group].cores, "/",
                         pool_.groups[candidate.group].devices.size()),
            fresh_group ? -1 : candidate.group);
        if (!tried.insert(kind).second) continue;
      }
      Sit(index, static_cast<int>(device), load, apart);
    }
  }

  void Sit(size_t index, int device, double load, int apart) {
    const Seat& seat = seats_[index];
    const PooledDevice& chosen = pool_.devices[device];
    const std::vector<double> before = group_seconds_;
    group_seconds_[chosen.group] += std::max(seat.seconds, 1e-12);
    int next_apart = apart;
    for (size_t other = 0; other < index; ++other) {
      const int distance = seat.stage - seats_[other].stage;
      if (distance > 1) continue;
      const PooledDevice& neighbour = pool_.devices[chosen_[other]];
      const bool same_node = neighbour.node == chosen.node;
      if (!same_node) ++next_apart;
      if (distance == 0) continue;
      const double messages =
          same_node ? seat.near_seconds : seat.apart_seconds;
      group_seconds_[chosen.group] += messages;
      group_seconds_[neighbour.group] += messages;
    }
    double next_load = std::max(load, seat.seconds);
    for (size_t group = 0; group < group_seconds_.size(); ++group) {
      next_load = std::max(next_load,
                           group_seconds_[group] / pool_.groups[group].cores);
    }
    if (!count_apart_ || next_load <= limit_) {
      chosen_[index] = device;
      taken_[device] = true;
      ++node_seats_[chosen.node];
      Place(index + 1, next_load, next_apart);
      --node_seats_[chosen.node];
      taken_[device] = seat.pinned >= 0;
    }
    group_seconds_ = before;
  }

  const DevicePool& pool_;
  const std::vector<Seat> seats_;
  const std::vector<bool>& holds_data_;
  std::vector<std::string> node_shape_;
  std::vector<bool> taken_;
  std::vector<double> group_seconds_;
  std::vector<int> node_seats_;
  std::vector<int> chosen_;
  std::vector<int> best_;
  double limit_ = 0;
  double best_load_ = 0;
  bool count_apart_ = false;
  int best_apart_ = 0;
};

// For many seats: groups filled evenly, then in the order of nodes.
std::vector<int> InOrder(const DevicePool& pool, const std::vector<Seat>& seats,
                         const std::vector<bool>& holds_data) {
  std::vector<bool> taken(pool.devices.size(), false);
  size_t free_seats = 0;
  size_t data_seats = 0;
  for (const Seat& seat : seats) {
    if (seat.pinned >= 0) {
      taken[seat.pinned] = true;
    } else {
      ++free_seats;
      if (seat.stage == 0) ++data_seats;
    }
  }
  // Device d of its group takes part in round d; nodes with data come first.
  std::vector<std::tuple<int, int, int>> rounds;  // (round, no data, device)
  std::vector<int> group_size(pool.groups.size(), 0);
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t d = 0; d < pool.devices.size(); ++d) {
      const PooledDevice& device = pool.devices[d];
      if (taken[d] || holds_data[device.node] != (pass == 0)) continue;
      rounds.emplace_back(group_size[device.group]++, pass,
                          static_cast<int>(d));
    }
  }
  std::sort(rounds.begin(), rounds.end());
  std::vector<std::pair<int, int>> picked;  // (no data, device)
  size_t with_data = 0;
  for (const auto& [round, no_data, device] : rounds) {
    // Keep room for what has to sit where the data is.
    const size_t left = free_seats - picked.size();
    if (left == 0) break;
    const size_t missing = data_seats > with_data ? data_seats - with_data : 0;
    if (no_data == 1 && left <= missing) continue;
    if (no_data == 0) ++with_data;
    picked.emplace_back(no_data, device);
  }
  if (picked.size() < free_seats || with_data < data_seats) return {};
  std::sort(picked.begin(), picked.end());
  std::vector<int> chosen;
  size_t next = 0;
  for (const Seat& seat : seats) {
    chosen.push_back(seat.pinned >= 0 ? seat.pinned : picked[next++].second);
  }
  return chosen;
}

}  // namespace

int DevicePool::Find(absl::string_view name) const {
  for (size_t d = 0; d < devices.size(); ++d) {
    if (devices[d].name == name) return static_cast<int>(d);
  }
  return -1;
}

const Link& DevicePool::LinkOf(const std::vector<int>& members) const {
  for (const int d : members) {
    if (devices[d].node != devices[members[0]].node) return between_nodes;
  }
  return within_node;
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
  for (const v1::Topology::Node& node : topology.nodes()) {
    const int node_index = static_cast<int>(pool.nodes.size());
    pool.nodes.push_back(node.name());
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
      pool.devices.push_back(
          {name, node_index, group_index, device.memory_bytes()});
    }
    for (size_t group = 0; group < group_cores.size(); ++group) {
      if (group_cores[group].empty()) continue;  // no cores named: full speed
      pool.groups[first_group + group].cores =
          static_cast<double>(group_cores[group].size()) / std::max(1, threads);
    }
  }
  return pool;
}

absl::StatusOr<std::vector<std::vector<int>>> AssignSeats(
    const DevicePool& pool, const std::vector<SeatRequest>& stages,
    const std::vector<std::string>& data_nodes) {
  std::vector<Seat> seats;
  for (size_t s = 0; s < stages.size(); ++s) {
    const double pairs =
        stages[s].replicas * (s == 0 ? 1.0 : stages[s - 1].replicas);
    for (int q = 0; q < stages[s].replicas; ++q) {
      seats.push_back({static_cast<int>(s), stages[s].seconds,
                       stages[s].pinned.empty() ? -1 : stages[s].pinned[q],
                       stages[s].near_seconds / pairs,
                       stages[s].apart_seconds / pairs});
    }
  }
  if (seats.size() > pool.devices.size()) {
    return absl::FailedPreconditionError(MismatchText(
        "plan", "the number of devices needed", absl::StrCat(seats.size()),
        absl::StrCat("at most ", pool.devices.size(),
                     ", the usable devices of the cluster"),
        "use fewer stages or replicas, or add devices"));
  }
  std::vector<bool> holds_data(pool.nodes.size(), data_nodes.empty());
  for (size_t node = 0; node < pool.nodes.size(); ++node) {
    if (std::find(data_nodes.begin(), data_nodes.end(), pool.nodes[node]) !=
        data_nodes.end()) {
      holds_data[node] = true;
    }
  }
  const std::vector<int> chosen = seats.size() <= kSearchedSeats
                                      ? Search(pool, seats, holds_data).Run()
                                      : InOrder(pool, seats, holds_data);
  if (chosen.empty()) {
    return absl::FailedPreconditionError(MismatchText(
        "plan", "the number of replicas of stage 0",
        absl::StrCat(stages[0].replicas),
        absl::StrCat("at most the free devices of the nodes that hold the "
                     "data: ",
                     absl::StrJoin(data_nodes, ", ")),
        "put the data on more nodes"));
  }
  std::vector<std::vector<int>> assigned(stages.size());
  for (size_t i = 0; i < seats.size(); ++i) {
    assigned[seats[i].stage].push_back(chosen[i]);
  }
  return assigned;
}

}  // namespace pipework
