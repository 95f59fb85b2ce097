// CountedLayout: a dynamic program over numbers of devices by kind, and how its
// stages are seated on nodes.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "partitioner/algorithms/mixed_search.h"

namespace pipework {
namespace mixed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMostLayers = 60;
constexpr double kMostSteps = 3e7;

class Counted {
 public:
  Counted(const Cluster& cluster, const Typical& links)
      : cluster_(cluster),
        cost_(cluster.cost()),
        straight_(cluster.input().straight),
        ends_(CoarseEnds(cluster.cost(), kMostLayers)),
        N_(static_cast<int>(ends_.size())),
        links_(links) {
    const MixedInput& input = cluster.input();
    devices_.assign(cost_.kinds(), 0);
    for (const Group& group : cluster.groups()) {
      devices_[group.kind] += static_cast<int>(group.members.size());
    }
    counted_ = input.stages > 0 || input.max_stages > 0;
    const int all = std::accumulate(devices_.begin(), devices_.end(), 0);
    K_ = !counted_          ? 1
         : input.stages > 0 ? input.stages
                            : std::min({input.max_stages, N_, all});
    ChooseBlocks();
    MakeSets();
  }

  Layout Solve() {
    if (N_ == 0 || counts_.size() < 2) return {};
    const int S = static_cast<int>(counts_.size());
    cells_.assign(static_cast<size_t>(K_) * (N_ + 1) * S, Cell{});
    costs_.assign(static_cast<size_t>(S) * N_ * N_, -1);
    for (int k = 0; k < K_; ++k) {
      for (int i = N_ - 1; i >= 0; --i) {
        for (int u = 1; u < S; ++u) Fill(k, i, u);
      }
    }
    int best_k = -1;
    int best_u = -1;
    double best = kInfinity;
    int fewest = 0;
    for (int k = cluster_.input().stages > 0 ? K_ - 1 : 0; k < K_; ++k) {
      for (int u = 1; u < S; ++u) {
        const double seconds = At(k, 0, u).seconds;
        const int used = members_[u];
        if (seconds < best * (1 - 1e-12) ||
            (seconds < kInfinity && seconds <= best * (1 + 1e-12) &&
             used < fewest)) {
          best = std::min(best, seconds);
          best_k = k;
          best_u = u;
          fewest = used;
        }
      }
    }
    if (best_u < 0) return {};
    return Seat(Read(best_k, best_u));
  }

 private:
  struct Cell {
    double seconds = kInfinity;
    int set = -1;   // of the stage that begins here
    int last = -1;  // its last coarse layer
  };
  struct Stage {
    int first;  // layers
    int last;
    std::vector<int> kinds;
  };

  // Devices of a kind go in blocks of equal size where there are too many sets
  // of them; what is left over waits for Improve. A straight pipeline takes
  // single ones, so there some are left out instead.
  void ChooseBlocks() {
    block_.assign(devices_.size(), 1);
    while (true) {
      double steps = 0.5 * N_ * N_ * K_;
      size_t most = 0;
      for (size_t k = 0; k < devices_.size(); ++k) {
        const double blocks = devices_[k] / block_[k];
        steps *= straight_ ? (blocks + 1) : (blocks + 1) * (blocks + 2) / 2;
        if (devices_[k] / block_[k] > devices_[most] / block_[most]) most = k;
      }
      if (steps <= kMostSteps || devices_[most] / block_[most] <= 1) return;
      if (straight_) {
        --devices_[most];
      } else {
        ++block_[most];
      }
    }
  }

  void MakeSets() {
    std::vector<int> blocks(devices_.size(), 0);
    while (true) {
      counts_.push_back(blocks);
      size_t k = 0;
      while (k < blocks.size() && blocks[k] == devices_[k] / block_[k]) {
        blocks[k++] = 0;
      }
      if (k == blocks.size()) break;
      ++blocks[k];
    }
    for (const std::vector<int>& set : counts_) {
      std::vector<int> kinds = set;
      int members = 0;
      for (size_t k = 0; k < kinds.size(); ++k) {
        kinds[k] *= block_[k];
        members += kinds[k];
      }
      kinds_.push_back(kinds);
      members_.push_back(members);
    }
    parts_.resize(counts_.size());
    for (size_t u = 1; u < counts_.size(); ++u) {
      for (size_t q = 1; q <= u; ++q) {
        if (Holds(u, q) && (!straight_ || members_[q] == 1)) {
          parts_[u].push_back(static_cast<int>(q));
        }
      }
    }
  }

  bool Holds(size_t set, size_t part) const {
    for (size_t k = 0; k < devices_.size(); ++k) {
      if (counts_[part][k] > counts_[set][k]) return false;
    }
    return true;
  }

  Cell& At(int k, int i, int u) {
    return cells_[(static_cast<size_t>(k) * (N_ + 1) + i) * counts_.size() + u];
  }

  int First(int coarse) const { return coarse == 0 ? 0 : ends_[coarse - 1]; }

  double Cost(int q, int i, int j) {
    double& seconds = costs_[(static_cast<size_t>(q) * N_ + i) * N_ + j];
    if (seconds < 0) {
      const Link& ring =
          members_[q] <= links_.largest_node ? links_.within : links_.between;
      seconds = cost_.Seconds(kinds_[q], First(i), ends_[j] - 1, ring,
                              links_.messages, links_.messages);
    }
    return seconds;
  }

  bool Fits(int q, int i, int j, int behind) const {
    const MixedInput& input = cluster_.input();
    if (!input.fits) return true;
    for (size_t k = 0; k < devices_.size(); ++k) {
      if (kinds_[q][k] > 0 &&
          !input.fits({static_cast<int>(k), First(i), ends_[j] - 1, members_[q],
                       behind})) {
        return false;
      }
    }
    return true;
  }

  void Fill(int k, int i, int u) {
    Cell& cell = At(k, i, u);
    for (const int q : parts_[u]) {
      for (int j = i; j < N_; ++j) {
        if (cost_.LeastSeconds(kinds_[q], First(i), ends_[j] - 1) >
            cell.seconds) {
          break;
        }
        double behind = 0;
        if (j + 1 < N_) {
          if (q == u || (counted_ && k == 0)) continue;
          behind = At(counted_ ? k - 1 : k, j + 1, u - q).seconds;
        } else if (q != u || (counted_ && k != 0)) {
          continue;
        }
        if (behind >= cell.seconds) continue;
        const double seconds = std::max(behind, Cost(q, i, j));
        if (seconds >= cell.seconds ||
            !Fits(q, i, j, members_[u] - members_[q])) {
          continue;
        }
        cell = {seconds, q, j};
      }
    }
  }

  std::vector<Stage> Read(int k, int u) {
    std::vector<Stage> stages;
    for (int i = 0; i < N_;) {
      const Cell& cell = At(k, i, u);
      stages.push_back({First(i), ends_[cell.last] - 1, kinds_[cell.set]});
      i = cell.last + 1;
      u -= cell.set;
      if (counted_) --k;
    }
    return stages;
  }

  // Stage by stage, each on as few nodes as may be: always the node that has
  // the most of what is still wanted, then the one that it empties most.
  Layout Seat(const std::vector<Stage>& stages) const {
    const std::vector<Group>& groups = cluster_.groups();
    std::vector<int> free;
    for (const Group& group : groups) {
      free.push_back(static_cast<int>(group.members.size()));
    }
    Layout layout;
    for (const Stage& stage : stages) {
      Part part = {stage.first, stage.last, std::vector<int>(groups.size(), 0)};
      std::vector<int> wanted = stage.kinds;
      while (std::any_of(wanted.begin(), wanted.end(),
                         [](int n) { return n > 0; })) {
        std::map<int, std::vector<int>> had;  // by node, of each kind
        std::map<int, int> left;
        for (size_t g = 0; g < groups.size(); ++g) {
          std::vector<int>& kinds = had[groups[g].node];
          kinds.resize(wanted.size(), 0);
          kinds[groups[g].kind] += free[g];
          left[groups[g].node] += free[g];
        }
        std::tuple<int, int, int> best = {0, 0, 0};
        for (const auto& [node, kinds] : had) {
          int given = 0;
          for (size_t k = 0; k < kinds.size(); ++k) {
            given += std::min(kinds[k], wanted[k]);
          }
          best = std::max(best, {given, given - left[node], -node});
        }
        const int node = -std::get<2>(best);
        for (size_t g = 0; g < groups.size(); ++g) {
          if (groups[g].node != node) continue;
          const int taken = std::min(free[g], wanted[groups[g].kind]);
          free[g] -= taken;
          wanted[groups[g].kind] -= taken;
          part.counts[g] += taken;
        }
      }
      layout.push_back(part);
    }
    return layout;
  }

  const Cluster& cluster_;
  const StageCost& cost_;
  const bool straight_;
  const std::vector<int> ends_;  // of coarse layers
  const int N_;
  int K_ = 1;
  bool counted_ = false;
  const Typical links_;
  std::vector<int> devices_;              // by kind
  std::vector<int> block_;                // devices of a kind in a block
  std::vector<std::vector<int>> counts_;  // by set: blocks of each kind
  std::vector<std::vector<int>> kinds_;   // by set: devices of each kind
  std::vector<int> members_;              // by set: devices
  std::vector<std::vector<int>> parts_;   // by set: what a stage may take
  std::vector<Cell> cells_;
  std::vector<double> costs_;  // of (q, i, j); below 0: not known yet
};

}  // namespace

Layout CountedLayout(const Cluster& cluster, const Typical& links) {
  return Counted(cluster, links).Solve();
}

}  // namespace mixed
}  // namespace pipework
