// RunLayout: a dynamic program over a list of devices of which every stage
// takes a run.
#include <algorithm>
#include <limits>
#include <vector>

#include "partitioner/algorithms/mixed_search.h"

namespace pipework {
namespace mixed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMostLayers = 60;
constexpr double kMostSteps = 3e6;

class Runs {
 public:
  Runs(const Cluster& cluster, const std::vector<int>& order,
       const Typical& links)
      : cluster_(cluster),
        input_(cluster.input()),
        cost_(cluster.cost()),
        ends_(CoarseEnds(cluster.cost(), kMostLayers)),
        N_(static_cast<int>(ends_.size())),
        order_(order),
        links_(links),
        counted_(input_.stages > 0 || input_.max_stages > 0) {
    const int devices = static_cast<int>(order.size());
    K_ = !counted_           ? 1
         : input_.stages > 0 ? input_.stages
                             : std::min({input_.max_stages, N_, devices});
    int block = 1;
    while (!input_.straight &&
           0.25 * N_ * N_ * K_ * (devices / block) * (devices / block) >
               kMostSteps) {
      ++block;
    }
    // Where a stage may begin and end.
    for (int p = 0; p < devices; p += block) places_.push_back(p);
    places_.push_back(devices);
    P_ = static_cast<int>(places_.size()) - 1;
    kinds_.push_back(std::vector<int>(cost_.kinds(), 0));
    for (int p = 0, d = 0; p < P_; ++p) {
      kinds_.push_back(kinds_.back());
      for (; d < places_[p + 1]; ++d) {
        ++kinds_.back()[cluster.groups()[order[d]].kind];
      }
    }
  }

  Layout Solve() {
    cells_.assign(static_cast<size_t>(K_) * (N_ + 1) * (P_ + 1), Cell{});
    for (int k = 0; k < K_; ++k) {
      for (int i = N_ - 1; i >= 0; --i) {
        for (int p = P_ - 1; p >= 0; --p) Fill(k, i, p);
      }
    }
    int best = -1;
    for (int k = input_.stages > 0 ? K_ - 1 : 0; k < K_; ++k) {
      const double seconds = At(k, 0, 0).seconds;
      if (seconds < (best < 0 ? kInfinity : At(best, 0, 0).seconds)) best = k;
    }
    return best < 0 ? Layout{} : Read(best);
  }

 private:
  struct Cell {
    double seconds = kInfinity;
    int from = 0;  // the stage's run; before it devices are idle
    int to = 0;
    int last = -1;  // its last coarse layer
    int used = 0;   // devices of it and of those behind it
  };

  Cell& At(int k, int i, int p) {
    return cells_[(static_cast<size_t>(k) * (N_ + 1) + i) * (P_ + 1) + p];
  }
  int First(int coarse) const { return coarse == 0 ? 0 : ends_[coarse - 1]; }

  bool Fits(const std::vector<int>& kinds, int i, int j, int members,
            int behind) const {
    if (!input_.fits) return true;
    for (size_t k = 0; k < kinds.size(); ++k) {
      if (kinds[k] > 0 && !input_.fits({static_cast<int>(k), First(i),
                                        ends_[j] - 1, members, behind})) {
        return false;
      }
    }
    return true;
  }

  // A[i][p]: layers i..N-1 on devices from p on.
  void Fill(int k, int i, int p) {
    Cell cell = At(k, i, p + 1);  // p stays idle
    std::vector<int> kinds(cost_.kinds());
    const int most = input_.straight ? p + 1 : P_;
    for (int to = p + 1; to <= most; ++to) {
      for (size_t c = 0; c < kinds.size(); ++c) {
        kinds[c] = kinds_[to][c] - kinds_[p][c];
      }
      const int members = places_[to] - places_[p];
      const bool near = cluster_.groups()[order_[places_[p]]].node ==
                        cluster_.groups()[order_[places_[to] - 1]].node;
      for (int j = i; j < N_; ++j) {
        const bool last = j + 1 == N_;
        if (counted_ && last != (k == 0)) continue;
        if (cost_.LeastSeconds(kinds, First(i), ends_[j] - 1) >= cell.seconds) {
          break;
        }
        Cell none;
        none.seconds = 0;
        const Cell& behind = last ? none : At(counted_ ? k - 1 : k, j + 1, to);
        if (behind.seconds >= cell.seconds) continue;
        const double seconds = std::max(
            behind.seconds, cost_.Seconds(kinds, First(i), ends_[j] - 1,
                                          near ? links_.within : links_.between,
                                          links_.messages, links_.messages));
        if (seconds >= cell.seconds ||
            !Fits(kinds, i, j, members, behind.used)) {
          continue;
        }
        cell = {seconds, p, to, j, members + behind.used};
      }
    }
    At(k, i, p) = cell;
  }

  Layout Read(int k) {
    Layout layout;
    for (int i = 0, p = 0; i < N_;) {
      const Cell& cell = At(k, i, p);
      Part part = {First(i), ends_[cell.last] - 1,
                   std::vector<int>(cluster_.groups().size(), 0)};
      for (int d = places_[cell.from]; d < places_[cell.to]; ++d) {
        ++part.counts[order_[d]];
      }
      layout.push_back(part);
      i = cell.last + 1;
      p = cell.to;
      if (counted_) --k;
    }
    return layout;
  }

  const Cluster& cluster_;
  const MixedInput& input_;
  const StageCost& cost_;
  const std::vector<int> ends_;  // of coarse layers
  const int N_;
  const std::vector<int> order_;  // group of each device
  const Typical links_;
  const bool counted_;
  int K_ = 1;
  int P_ = 0;
  std::vector<int> places_;
  std::vector<std::vector<int>> kinds_;  // before each place, of each kind
  std::vector<Cell> cells_;
};

}  // namespace

Layout RunLayout(const Cluster& cluster, RunOrder order, const Typical& links) {
  const std::vector<Group>& groups = cluster.groups();
  std::vector<int> sorted(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) sorted[g] = static_cast<int>(g);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
    return groups[a].node < groups[b].node;
  });
  if (order != RunOrder::kByNode) {
    const auto seconds = [&](int g) {
      const double all = cluster.cost().Compute(groups[g].kind, 0,
                                                cluster.cost().layers() - 1);
      return order == RunOrder::kFastestFirst ? all : -all;
    };
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](int a, int b) { return seconds(a) < seconds(b); });
  }
  std::vector<int> devices;
  for (const int g : sorted) {
    devices.insert(devices.end(), groups[g].members.size(), g);
  }
  return Runs(cluster, devices, links).Solve();
}

}  // namespace mixed
}  // namespace pipework
