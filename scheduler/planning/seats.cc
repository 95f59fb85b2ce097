// Who sits where: AssignSeats of devices.h.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/errors.h"
#include "scheduler/planning/devices.h"

namespace pipework {
namespace {

// Most seats for which arrangements are searched, and most devices looked at
// in one search: 16 devices are searched in full.
constexpr size_t kSearchedSeats = 8;
constexpr int64_t kSearchedDevices = 1000000;
constexpr int kAllSearched = 16;
// Loads closer than this are as good as equal.
constexpr double kSameLoad = 1.05;
struct Seat {
  int stage;
  const SeatRequest* request;
  int pinned;  // device, or -1
  // Between this seat and one of the stage before, at each end.
  double near_seconds;
  double apart_seconds;

  double Seconds(const PooledDevice& device) const {
    const double seconds = request->kind_seconds.empty()
                               ? request->seconds / device.relative_speed
                               : request->kind_seconds[device.kind];
    return std::max(seconds, 1e-12);
  }
};

// Numbers for texts: equal texts have equal numbers.
class Numbers {
 public:
  int Of(const std::string& text) {
    return known_.emplace(text, static_cast<int>(known_.size())).first->second;
  }

 private:
  std::map<std::string, int> known_;
};

// Devices that nothing tells apart as long as nobody sits near them.
class Likeness {
 public:
  Likeness(const DevicePool& pool, const std::vector<bool>& holds_data) {
    const int levels = static_cast<int>(pool.levels.size());
    Numbers numbers;
    std::vector<std::string> nodes(pool.nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n)
      nodes[n] = holds_data[n] ? "d" : "";
    for (const auto& [pair, link] : pool.node_links) {
      absl::StrAppend(&nodes[pair.first], "=", pair.first);
      absl::StrAppend(&nodes[pair.second], "=", pair.second);
    }
    for (const CoreGroup& group : pool.groups) {
      absl::StrAppend(&nodes[group.node], " ", GroupText(pool, group));
    }
    // Of the component that holds a device below each level.
    std::vector<int> inner;
    for (const PooledDevice& device : pool.devices) {
      inner.push_back(numbers.Of(nodes[device.node]));
    }
    classes_.resize(static_cast<size_t>(levels) + 1);
    for (size_t d = 0; d < pool.devices.size(); ++d) {
      const PooledDevice& device = pool.devices[d];
      const std::string own = absl::StrCat(
          device.kind, "x", device.relative_speed, "x", device.memory_bytes);
      classes_[0].push_back(numbers.Of(own));
      classes_[1].push_back(numbers.Of(
          absl::StrCat(own, "g", GroupText(pool, pool.groups[device.group]))));
    }
    for (int k = 1; k < levels; ++k) {
      // What the device is below level k, then what its component there is.
      std::map<int, std::string> components;
      std::map<int, std::set<int>> seen;
      for (size_t d = 0; d < pool.devices.size(); ++d) {
        classes_[k + 1].push_back(
            numbers.Of(absl::StrCat(classes_[k][d], "in", inner[d])));
        if (k + 1 >= levels) continue;
        const int below = pool.devices[d].path[k - 1];
        const int component = pool.devices[d].path[k];
        if (seen[component].insert(below).second) {
          absl::StrAppend(&components[component], ",", inner[d]);
        }
      }
      if (k + 1 >= levels) continue;
      for (size_t d = 0; d < pool.devices.size(); ++d) {
        inner[d] =
            numbers.Of(absl::StrCat("c", components[pool.devices[d].path[k]]));
      }
    }
  }

  // `fresh` is how many of group, node, group of nodes and so on around the
  // device nobody sits in.
  int ClassOf(int device, int fresh) const { return classes_[fresh][device]; }

 private:
  static std::string GroupText(const DevicePool& pool, const CoreGroup& group) {
    std::string text = absl::StrCat(group.cores, "/");
    for (const int d : group.devices) {
      absl::StrAppend(&text, pool.devices[d].kind, "x",
                      pool.devices[d].relative_speed, "+");
    }
    return text;
  }

  std::vector<std::vector<int>> classes_;
};

// Looks for the arrangement with the smallest load, then the one with the
// fewest neighbours apart whose load is not much larger.
class Search {
 public:
  Search(const DevicePool& pool, const std::vector<Seat>& seats,
         const std::vector<bool>& holds_data)
      : pool_(pool),
        seats_(seats),
        holds_data_(holds_data),
        likeness_(pool, holds_data),
        taken_(pool.devices.size(), false),
        group_seconds_(pool.groups.size(), 0),
        chosen_(seats_.size(), -1) {
    for (const Seat& seat : seats_) {
      if (seat.pinned >= 0) taken_[seat.pinned] = true;
    }
    seated_.resize(pool.levels.size() - 1);
    for (size_t k = 0; k < seated_.size(); ++k) {
      int most = -1;
      for (const PooledDevice& device : pool.devices) {
        most = std::max(most, device.path[k]);
      }
      seated_[k].assign(static_cast<size_t>(most) + 1, 0);
    }
  }

  // Empty when nothing fits, or nothing was found in time.
  std::vector<int> Run() {
    limit_ = std::numeric_limits<double>::infinity();
    count_apart_ = false;
    Place(0, 0, 0);
    if (best_.empty()) return best_;
    limit_ = best_load_ * kSameLoad;
    count_apart_ = true;
    best_apart_ = std::numeric_limits<int>::max();
    looked_at_ = 0;
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
    if (looked_at_ > kSearchedDevices) return;
    looked_at_ += pool_.size();
    const Seat& seat = seats_[index];
    if (seat.pinned >= 0) {
      Sit(index, seat.pinned, load, apart);
      return;
    }
    std::set<std::tuple<int, int, int>> tried;
    for (int device = 0; device < pool_.size(); ++device) {
      const PooledDevice& candidate = pool_.devices[device];
      if (taken_[device]) continue;
      if (seat.stage == 0 && !holds_data_[candidate.node]) continue;
      // What nobody has touched is all alike.
      int fresh = 0;
      int touched = candidate.group;
      if (group_seconds_[candidate.group] == 0) {
        fresh = 1;
        while (static_cast<size_t>(fresh) <= seated_.size() &&
               seated_[fresh - 1][candidate.path[fresh - 1]] == 0) {
          ++fresh;
        }
        touched = static_cast<size_t>(fresh) <= seated_.size()
                      ? candidate.path[fresh - 1]
                      : -1;
      }
      if (!tried.emplace(fresh, touched, likeness_.ClassOf(device, fresh))
               .second) {
        continue;
      }
      Sit(index, device, load, apart);
    }
  }

  void Sit(size_t index, int device, double load, int apart) {
    const Seat& seat = seats_[index];
    const PooledDevice& chosen = pool_.devices[device];
    const double seconds = seat.Seconds(chosen);
    std::vector<std::pair<int, double>> before = {
        {chosen.group, group_seconds_[chosen.group]}};
    group_seconds_[chosen.group] += seconds;
    int next_apart = apart;
    for (size_t other = 0; other < index; ++other) {
      const int distance = seat.stage - seats_[other].stage;
      if (distance > 1) continue;
      const int level = pool_.LevelBetween(chosen_[other], device);
      next_apart += level;
      if (distance == 0) continue;
      const int group = pool_.devices[chosen_[other]].group;
      before.emplace_back(group, group_seconds_[group]);
      const double messages =
          level == 0 ? seat.near_seconds : seat.apart_seconds;
      group_seconds_[chosen.group] += messages;
      group_seconds_[group] += messages;
    }
    double next_load = std::max(load, seconds);
    for (const auto& [group, was] : before) {
      next_load = std::max(next_load,
                           group_seconds_[group] / pool_.groups[group].cores);
    }
    if (!count_apart_ || next_load <= limit_) {
      chosen_[index] = device;
      taken_[device] = true;
      for (size_t k = 0; k < seated_.size(); ++k) ++seated_[k][chosen.path[k]];
      Place(index + 1, next_load, next_apart);
      for (size_t k = 0; k < seated_.size(); ++k) --seated_[k][chosen.path[k]];
      taken_[device] = seat.pinned >= 0;
    }
    for (auto it = before.rbegin(); it != before.rend(); ++it) {
      group_seconds_[it->first] = it->second;
    }
  }

  const DevicePool& pool_;
  const std::vector<Seat>& seats_;
  const std::vector<bool>& holds_data_;
  const Likeness likeness_;
  std::vector<bool> taken_;
  std::vector<double> group_seconds_;
  std::vector<std::vector<int>> seated_;  // by level, by component
  std::vector<int> chosen_;
  std::vector<int> best_;
  double limit_ = 0;
  double best_load_ = 0;
  bool count_apart_ = false;
  int best_apart_ = 0;
  int64_t looked_at_ = 0;
};

// Devices so that those of one component stand together.
std::vector<int> PathOrder(const DevicePool& pool) {
  std::vector<int> order(pool.devices.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&pool](int a, int b) {
    const std::vector<int>& x = pool.devices[a].path;
    const std::vector<int>& y = pool.devices[b].path;
    return std::lexicographical_compare(x.rbegin(), x.rend(), y.rbegin(),
                                        y.rend());
  });
  return order;
}

// For many seats: the fastest devices, groups filled evenly, then in the order
// of nodes. With devices of several speeds the longest stages take the fastest.
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
  struct Offer {
    int round;
    double slowness;
    bool no_data;
    int place;
    int device;
  };
  std::vector<Offer> rounds;
  std::vector<int> group_size(pool.groups.size(), 0);
  int place = 0;
  for (const int d : PathOrder(pool)) {
    const PooledDevice& device = pool.devices[d];
    if (taken[d]) continue;
    rounds.push_back({group_size[device.group]++, 1 / device.relative_speed,
                      !holds_data[device.node], place++, d});
  }
  std::sort(rounds.begin(), rounds.end(), [](const Offer& a, const Offer& b) {
    return std::tie(a.round, a.slowness, a.no_data, a.place) <
           std::tie(b.round, b.slowness, b.no_data, b.place);
  });
  std::vector<Offer> picked;
  size_t with_data = 0;
  for (const Offer& offer : rounds) {
    // Keep room for what has to sit where the data is.
    const size_t left = free_seats - picked.size();
    if (left == 0) break;
    const size_t missing = data_seats > with_data ? data_seats - with_data : 0;
    if (offer.no_data && left <= missing) continue;
    if (!offer.no_data) ++with_data;
    picked.push_back(offer);
  }
  if (picked.size() < free_seats || with_data < data_seats) return {};
  std::sort(picked.begin(), picked.end(), [](const Offer& a, const Offer& b) {
    return std::tie(a.slowness, a.no_data, a.place) <
           std::tie(b.slowness, b.no_data, b.place);
  });

  std::vector<int> chosen(seats.size(), -1);
  std::vector<size_t> order;
  for (size_t i = 0; i < seats.size(); ++i) {
    if (seats[i].pinned >= 0) {
      chosen[i] = seats[i].pinned;
    } else {
      order.push_back(i);
    }
  }
  if (!pool.Alike()) {
    std::stable_sort(order.begin(), order.end(), [&seats](size_t a, size_t b) {
      return seats[a].request->seconds > seats[b].request->seconds;
    });
  }
  // Stage 0 takes the next with data, the others what leaves enough for it.
  std::vector<bool> given(picked.size(), false);
  size_t first_free = 0;
  for (const size_t i : order) {
    while (first_free < given.size() && given[first_free]) ++first_free;
    size_t p = first_free;
    for (; p < picked.size(); ++p) {
      if (given[p]) continue;
      if (seats[i].stage == 0 ? !picked[p].no_data
                              : picked[p].no_data || with_data > data_seats) {
        break;
      }
    }
    if (p == picked.size()) return {};
    given[p] = true;
    if (!picked[p].no_data) --with_data;
    if (seats[i].stage == 0) --data_seats;
    chosen[i] = picked[p].device;
  }
  return chosen;
}

// Seats for wide stages: each in the smallest component that has room, whole
// smaller components of it first.
class Packing {
 public:
  Packing(const DevicePool& pool, const std::vector<bool>& holds_data)
      : pool_(pool),
        holds_data_(holds_data),
        order_(PathOrder(pool)),
        taken_(pool.devices.size(), false) {}

  // Empty when there is no room. `on_data`: only nodes that hold the data.
  std::vector<int> Take(int replicas, bool on_data) {
    std::vector<int> free;
    for (const int d : order_) {
      if (taken_[d] || (on_data && !holds_data_[pool_.devices[d].node]))
        continue;
      free.push_back(d);
    }
    std::vector<int> seats;
    for (size_t level = 0; level < pool_.levels.size(); ++level) {
      const std::map<int, std::vector<int>> rooms = Rooms(free, level);
      const std::vector<int>* best = nullptr;
      for (const auto& [id, room] : rooms) {
        const bool fits = static_cast<int>(room.size()) >= replicas;
        if (fits && (best == nullptr || room.size() < best->size())) {
          best = &room;
        }
      }
      if (best == nullptr) continue;
      Fill(*best, level, replicas, &seats);
      break;
    }
    return seats;
  }

 private:
  // `devices` by the component of `level` that they are in.
  std::map<int, std::vector<int>> Rooms(const std::vector<int>& devices,
                                        size_t level) const {
    std::map<int, std::vector<int>> rooms;
    for (const int d : devices) {
      const std::vector<int>& path = pool_.devices[d].path;
      rooms[level < path.size() ? path[level] : 0].push_back(d);
    }
    return rooms;
  }

  // `wanted` of `room`, which is one component of `level`.
  void Fill(const std::vector<int>& room, size_t level, int wanted,
            std::vector<int>* seats) {
    if (level == 0 || static_cast<int>(room.size()) == wanted) {
      for (int i = 0; i < wanted; ++i) {
        taken_[room[i]] = true;
        seats->push_back(room[i]);
      }
      return;
    }
    std::map<int, std::vector<int>> inner = Rooms(room, level - 1);
    while (wanted > 0) {
      // The largest that is used up, else the smallest.
      auto best = inner.end();
      for (auto it = inner.begin(); it != inner.end(); ++it) {
        const auto size = [wanted](const std::vector<int>& devices) {
          const int n = static_cast<int>(devices.size());
          return n <= wanted ? std::make_pair(0, -n) : std::make_pair(1, n);
        };
        if (best == inner.end() || size(it->second) < size(best->second)) {
          best = it;
        }
      }
      const int part = std::min(wanted, static_cast<int>(best->second.size()));
      Fill(best->second, level - 1, part, seats);
      wanted -= part;
      inner.erase(best);
    }
  }

  const DevicePool& pool_;
  const std::vector<bool>& holds_data_;
  const std::vector<int> order_;
  std::vector<bool> taken_;
};

// For many seats on equal devices, wide stages first. Empty where that cannot
// be said: pins, shared cores, several speeds.
std::vector<int> Packed(const DevicePool& pool, const std::vector<Seat>& seats,
                        const std::vector<bool>& holds_data) {
  if (!pool.Alike()) return {};
  for (const CoreGroup& group : pool.groups) {
    if (static_cast<double>(group.devices.size()) > group.cores) return {};
  }
  std::vector<std::vector<size_t>> stages;
  for (size_t i = 0; i < seats.size(); ++i) {
    if (seats[i].pinned >= 0) return {};
    stages.resize(static_cast<size_t>(seats[i].stage) + 1);
    stages.back().push_back(i);
  }
  // What has to sit where the data is has no choice.
  const bool anywhere = std::find(holds_data.begin(), holds_data.end(),
                                  false) == holds_data.end();
  std::vector<int> order(stages.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::make_tuple(a != 0 || anywhere, stages[b].size()) <
           std::make_tuple(b != 0 || anywhere, stages[a].size());
  });
  Packing packing(pool, holds_data);
  std::vector<int> chosen(seats.size(), -1);
  for (const int stage : order) {
    const std::vector<int> devices =
        packing.Take(static_cast<int>(stages[stage].size()), stage == 0);
    if (devices.empty()) return {};
    for (size_t i = 0; i < devices.size(); ++i) {
      chosen[stages[stage][i]] = devices[i];
    }
  }
  return chosen;
}

// What Search looks at, for a whole arrangement. Wide stages that leave a
// component count before neighbours: their all-reduce then takes the slower
// link as a whole.
struct Score {
  double load = 0;
  double split = 0;  // replicas of each stage times the levels they span
  double apart = 0;
};

Score ScoreOf(const DevicePool& pool, const std::vector<Seat>& seats,
              const std::vector<int>& chosen) {
  Score score;
  const size_t levels = pool.levels.size();
  std::vector<double> group_seconds(pool.groups.size(), 0);
  // Seats of the stage before, and of this one, by level and component.
  using Counts = std::vector<std::map<int, double>>;
  Counts before(levels - 1);
  double before_all = 0;
  size_t begin = 0;
  size_t previous = 0;
  while (begin < seats.size()) {
    size_t end = begin;
    Counts here(levels - 1);
    while (end < seats.size() && seats[end].stage == seats[begin].stage) {
      const PooledDevice& device = pool.devices[chosen[end]];
      for (size_t k = 0; k + 1 < levels; ++k) ++here[k][device.path[k]];
      const double seconds = seats[end].Seconds(device);
      score.load = std::max(score.load, seconds);
      group_seconds[device.group] += seconds;
      ++end;
    }
    const double all = static_cast<double>(end - begin);
    const auto messages = [&](size_t i, const Counts& others,
                              double others_all) {
      const PooledDevice& device = pool.devices[chosen[i]];
      const auto it = others[0].find(device.node);
      const double same = it == others[0].end() ? 0 : it->second;
      group_seconds[device.group] +=
          same * seats[begin].near_seconds +
          (others_all - same) * seats[begin].apart_seconds;
    };
    if (begin > 0) {
      for (size_t i = begin; i < end; ++i) messages(i, before, before_all);
      for (size_t i = previous; i < begin; ++i) messages(i, here, all);
    }
    for (size_t k = 0; k + 1 < levels; ++k) {
      if (here[k].size() > 1) score.split += all;
      double together = 0;
      double beside = 0;
      for (const auto& [id, count] : here[k]) {
        together += count * (count - 1) / 2;
        const auto it = before[k].find(id);
        if (it != before[k].end()) beside += count * it->second;
      }
      score.apart += all * (all - 1) / 2 - together;
      score.apart += all * before_all - beside;
    }
    before = std::move(here);
    before_all = all;
    previous = begin;
    begin = end;
  }
  for (size_t group = 0; group < group_seconds.size(); ++group) {
    score.load =
        std::max(score.load, group_seconds[group] / pool.groups[group].cores);
  }
  return score;
}

// The first of the best arrangements; empty when there is none.
std::vector<int> BestOf(const DevicePool& pool, const std::vector<Seat>& seats,
                        std::vector<std::vector<int>> arrangements) {
  arrangements.erase(
      std::remove_if(arrangements.begin(), arrangements.end(),
                     [](const std::vector<int>& a) { return a.empty(); }),
      arrangements.end());
  if (arrangements.empty()) return {};
  std::vector<Score> scores;
  double smallest = std::numeric_limits<double>::infinity();
  for (const std::vector<int>& arrangement : arrangements) {
    scores.push_back(ScoreOf(pool, seats, arrangement));
    smallest = std::min(smallest, scores.back().load);
  }
  size_t best = arrangements.size();
  for (size_t a = 0; a < arrangements.size(); ++a) {
    if (scores[a].load > smallest * kSameLoad) continue;
    if (best == arrangements.size() ||
        std::tie(scores[a].split, scores[a].apart) <
            std::tie(scores[best].split, scores[best].apart)) {
      best = a;
    }
  }
  return arrangements[best];
}

}  // namespace

absl::StatusOr<std::vector<std::vector<int>>> AssignSeats(
    const DevicePool& pool, const std::vector<SeatRequest>& stages,
    const std::vector<std::string>& data_nodes) {
  std::vector<Seat> seats;
  for (size_t s = 0; s < stages.size(); ++s) {
    const double pairs =
        stages[s].replicas * (s == 0 ? 1.0 : stages[s - 1].replicas);
    for (int q = 0; q < stages[s].replicas; ++q) {
      seats.push_back({static_cast<int>(s), &stages[s],
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
  std::vector<int> chosen;
  const bool few = seats.size() <= kSearchedSeats;
  if (few) chosen = Search(pool, seats, holds_data).Run();
  if (!few || pool.size() > kAllSearched) {
    chosen = BestOf(pool, seats,
                    {chosen, InOrder(pool, seats, holds_data),
                     Packed(pool, seats, holds_data)});
  }
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
