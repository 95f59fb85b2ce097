// Improve: from a layout to a better one by small changes around its slowest
// stage.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "partitioner/algorithms/mixed_search.h"

namespace pipework {
namespace mixed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSame = 1e-12;
// Layouts looked at, and groups of a stage that a change may touch.
constexpr int kMostLayouts = 8000;
constexpr size_t kMostGroups = 10;

struct Scored {
  Layout layout;
  std::vector<double> seconds;  // of each part
  double slowest = kInfinity;
  double squares = 0;

  // By the slowest part, then by how even they are.
  bool BetterThan(const Scored& other) const {
    if (slowest == kInfinity) return false;
    if (slowest < other.slowest * (1 - kSame)) return true;
    if (slowest > other.slowest * (1 + kSame)) return false;
    return squares < other.squares * (1 - 1e-9);
  }
};

class Search {
 public:
  Search(const Cluster& cluster, const Layout& start)
      : cluster_(cluster),
        input_(cluster.input()),
        free_stages_(input_.stages == 0 && !input_.straight),
        now_(Score(start)) {}

  Layout Run() {
    while (looked_at_ < kMostLayouts && now_.slowest < kInfinity) {
      best_ = now_;
      const size_t b =
          std::max_element(now_.seconds.begin(), now_.seconds.end()) -
          now_.seconds.begin();
      Count();
      MoveCuts(b);
      MoveDevices(b);
      SplitAndJoin(b);
      if (!best_.BetterThan(now_)) break;
      now_ = best_;
    }
    return now_.layout;
  }

 private:
  Scored Score(Layout layout) {
    ++looked_at_;
    Scored scored;
    scored.layout = std::move(layout);
    const int stages = static_cast<int>(scored.layout.size());
    if ((input_.stages > 0 && stages != input_.stages) ||
        (input_.max_stages > 0 && stages > input_.max_stages)) {
      return scored;
    }
    int behind = 0;
    for (size_t s = scored.layout.size(); s-- > 0;) {
      const Part& part = scored.layout[s];
      const int devices = part.devices();
      if (devices == 0 || part.last < part.first ||
          (input_.straight && devices > 1) || !cluster_.Fits(part, behind)) {
        return scored;
      }
      behind += devices;
    }
    double slowest = 0;
    for (size_t s = 0; s < scored.layout.size(); ++s) {
      const double seconds = cluster_.CostOf(scored.layout, s).seconds;
      scored.seconds.push_back(seconds);
      scored.squares += seconds * seconds;
      slowest = std::max(slowest, seconds);
      if (slowest > best_.slowest * (1 + kSame)) return scored;
    }
    scored.slowest = slowest;
    return scored;
  }

  void Offer(Layout layout) {
    if (looked_at_ >= kMostLayouts) return;
    Scored scored = Score(std::move(layout));
    if (scored.BetterThan(best_)) best_ = std::move(scored);
  }

  // What no part of the layout uses.
  void Count() {
    idle_.clear();
    for (const Group& group : cluster_.groups()) {
      idle_.push_back(static_cast<int>(group.members.size()));
    }
    for (const Part& part : now_.layout) {
      for (size_t g = 0; g < idle_.size(); ++g) idle_[g] -= part.counts[g];
    }
  }

  // Groups with devices in `counts`, those with the fewest first.
  static std::vector<size_t> GroupsOf(const std::vector<int>& counts) {
    std::vector<size_t> groups;
    for (size_t g = 0; g < counts.size(); ++g) {
      if (counts[g] > 0) groups.push_back(g);
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [&](size_t a, size_t b) { return counts[a] < counts[b]; });
    if (groups.size() > kMostGroups) groups.resize(kMostGroups);
    return groups;
  }

  void MoveCuts(size_t b) {
    const auto stages = static_cast<int>(now_.layout.size());
    const auto at = static_cast<int>(b);
    // Layers from b through all stages up to t, and the same towards b.
    for (int t = 0; t < stages; ++t) {
      if (t == at) continue;
      const int step = t > at ? 1 : -1;
      for (const int layers : {1, 2, 4, 8, -1, -2, -4, -8}) {
        Layout layout = now_.layout;
        for (int s = at; s != t; s += step) {
          if (step > 0) {
            layout[s].last -= layers;
            layout[s + 1].first -= layers;
          } else {
            layout[s].first += layers;
            layout[s - 1].last += layers;
          }
        }
        Offer(std::move(layout));
      }
    }
  }

  void MoveDevices(size_t b) {
    const std::vector<size_t> own = GroupsOf(now_.layout[b].counts);
    for (const size_t g : GroupsOf(idle_)) {
      for (const int devices : {1, 2, 4, idle_[g]}) {
        if (devices > idle_[g]) continue;
        Layout layout = now_.layout;
        layout[b].counts[g] += devices;
        Offer(std::move(layout));
      }
      for (const size_t h : own) Exchange(b, h, nullptr, g);
    }
    for (const size_t h : own) {
      Layout layout = now_.layout;
      --layout[b].counts[h];
      Offer(std::move(layout));
    }
    for (size_t s = 0; s < now_.layout.size(); ++s) {
      if (s == b) continue;
      for (const size_t g : GroupsOf(now_.layout[s].counts)) {
        Layout layout = now_.layout;
        --layout[s].counts[g];
        ++layout[b].counts[g];
        Offer(std::move(layout));
        for (const size_t h : own) {
          if (g != h) Exchange(b, h, &s, g);
        }
      }
    }
  }

  // One of h in part b for one of g in part `s`, or for an idle one.
  void Exchange(size_t b, size_t h, const size_t* s, size_t g) {
    Layout layout = now_.layout;
    --layout[b].counts[h];
    ++layout[b].counts[g];
    if (s != nullptr) {
      --layout[*s].counts[g];
      ++layout[*s].counts[h];
    }
    Offer(std::move(layout));
  }

  void SplitAndJoin(size_t b) {
    if (!free_stages_) return;
    const Part& slowest = now_.layout[b];
    for (size_t s = b == 0 ? 0 : b - 1; s <= b && s + 1 < now_.layout.size();
         ++s) {
      Layout layout = now_.layout;
      layout[s].last = layout[s + 1].last;
      for (size_t g = 0; g < idle_.size(); ++g) {
        layout[s].counts[g] += layout[s + 1].counts[g];
      }
      layout.erase(layout.begin() + s + 1);
      Offer(std::move(layout));
    }
    const int devices = slowest.devices();
    const int step = std::max(1, devices / 8);
    for (int taken = 1; taken < devices; taken += step) {
      // The first groups make the first half.
      Part front = slowest;
      Part back = slowest;
      int left = taken;
      for (size_t g = 0; g < idle_.size(); ++g) {
        front.counts[g] = std::min(left, slowest.counts[g]);
        back.counts[g] -= front.counts[g];
        left -= front.counts[g];
      }
      for (int cut = slowest.first; cut < slowest.last; ++cut) {
        front.last = cut;
        back.first = cut + 1;
        for (const bool turned : {false, true}) {
          Layout layout = now_.layout;
          layout[b] = front;
          layout.insert(layout.begin() + b + 1, back);
          if (turned) std::swap(layout[b].counts, layout[b + 1].counts);
          Offer(std::move(layout));
        }
      }
    }
  }

  const Cluster& cluster_;
  const MixedInput& input_;
  const bool free_stages_;
  int looked_at_ = 0;
  Scored best_;
  Scored now_;
  std::vector<int> idle_;  // by group
};

}  // namespace

Layout Improve(const Cluster& cluster, Layout layout) {
  return layout.empty() ? layout : Search(cluster, layout).Run();
}

}  // namespace mixed
}  // namespace pipework
