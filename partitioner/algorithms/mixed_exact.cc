// From the last stage to the first, so that what is in flight behind a stage is
// known when it is asked whether it fits:
//
//   Q        devices of the stage that is being built, a multiset of groups
//   U        devices in use, Q and those of all later stages
//   j        its last layer
//   x        its link to the stage behind it
//   V[j][U][Q][x]   the slowest of the later stages, at best
//
//   V[N-1][Q][Q][none] = 0
//   V[i-1][U + P][P][link(P, Q)] =
//     min over i, j, Q, x of max( V[j][U][Q][x], T(Q, i..j, link(P, Q), x) )
//
// where it fits, and the answer is the least max( V[j][U][Q][x], T(Q, 0..j) ).
#include "partitioner/algorithms/mixed_exact.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace pipework {
namespace mixed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSame = 1e-12;

constexpr double kMostSets = 2048;
constexpr double kMostCells = 8e6;
constexpr double kMostSteps = 1.5e8;

// Distinct links of a cluster; 0 is none at all.
class LinkTable {
 public:
  int Id(const Link& link) {
    for (size_t i = 1; i < links_.size(); ++i) {
      if (links_[i].bytes_per_second == link.bytes_per_second &&
          links_[i].latency_seconds == link.latency_seconds &&
          links_[i].compute_share == link.compute_share) {
        return static_cast<int>(i);
      }
    }
    links_.push_back(link);
    return static_cast<int>(links_.size()) - 1;
  }
  const Link& operator[](int id) const { return links_[id]; }
  int size() const { return static_cast<int>(links_.size()); }

 private:
  std::vector<Link> links_ = {Link{}};
};

// Multisets of groups as numbers; sums of disjoint ones are sums of these.
class Sets {
 public:
  explicit Sets(const Cluster& cluster) {
    std::vector<int> counts(cluster.groups().size(), 0);
    while (true) {
      counts_.push_back(counts);
      size_t g = 0;
      while (g < counts.size() &&
             counts[g] ==
                 static_cast<int>(cluster.groups()[g].members.size())) {
        counts[g++] = 0;
      }
      if (g == counts.size()) break;
      ++counts[g];
    }
    for (const std::vector<int>& set : counts_) {
      int devices = 0;
      for (const int count : set) devices += count;
      devices_.push_back(devices);
    }
  }

  int size() const { return static_cast<int>(counts_.size()); }
  int all() const { return size() - 1; }
  const std::vector<int>& counts(int set) const { return counts_[set]; }
  int devices(int set) const { return devices_[set]; }
  bool Holds(int set, int part) const {
    for (size_t g = 0; g < counts_[set].size(); ++g) {
      if (counts_[part][g] > counts_[set][g]) return false;
    }
    return true;
  }

 private:
  std::vector<std::vector<int>> counts_;
  std::vector<int> devices_;
};

int MostStages(const MixedInput& input) {
  if (input.stages > 0) return input.stages;
  const int most =
      std::min(input.layers(), static_cast<int>(input.devices.size()));
  return input.max_stages > 0 ? std::min(input.max_stages, most) : most;
}

// Stages need not be counted where nothing limits them.
int CountedStages(const MixedInput& input) {
  return input.stages > 0 || input.max_stages > 0 ? MostStages(input) : 1;
}

class Recurrence {
 public:
  explicit Recurrence(const Cluster& cluster)
      : cluster_(cluster),
        N_(cluster.cost().layers()),
        K_(CountedStages(cluster.input())),
        counted_(cluster.input().stages > 0 || cluster.input().max_stages > 0),
        sets_(cluster),
        S_(sets_.size()) {
    pair_.assign(static_cast<size_t>(S_) * S_, -1);
    parts_.resize(S_);
    for (int u = 0; u < S_; ++u) {
      for (int q = 1; q <= u; ++q) {
        if (!sets_.Holds(u, q)) continue;
        pair_[static_cast<size_t>(u) * S_ + q] = pairs_++;
        if (!cluster.input().straight || sets_.devices(q) == 1) {
          parts_[u].push_back(q);
        }
      }
    }
    between_.assign(static_cast<size_t>(S_) * S_, 0);
    within_.resize(S_);
    kinds_.resize(S_);
    for (int q = 1; q < S_; ++q) {
      within_[q] = links_.Id(cluster.Within(sets_.counts(q)));
      kinds_[q] = cluster.ByKind(sets_.counts(q));
      for (const int p : parts_[sets_.all() - q]) {
        const Link link = cluster.Between(sets_.counts(p), sets_.counts(q));
        between_[static_cast<size_t>(p) * S_ + q] = links_.Id(link);
      }
    }
    L_ = links_.size();
    cells_.resize(static_cast<size_t>(K_) * N_ * pairs_ * L_);
    const double costs = double{1} * S_ * N_ * N_ * L_ * L_;
    if (costs <= kMostCells) costs_.assign(static_cast<size_t>(costs), -1);
  }

  Layout Solve() {
    for (const int q : parts_[sets_.all()]) {
      At(0, N_ - 1, q, q, 0) = {0, -1, -1, -1};
    }
    for (int k = 0; k < K_; ++k) {
      for (int j = N_ - 1; j >= 0; --j) {
        for (int u = 1; u < S_; ++u) {
          for (const int q : parts_[u]) {
            for (int x = 0; x < L_; ++x) Extend(k, j, u, q, x);
          }
        }
      }
    }
    return Read();
  }

 private:
  struct Cell {
    double seconds = kInfinity;
    // Of the stage behind: devices, last layer, link to the one behind it.
    int set = -1;
    int16_t last = -1;
    int16_t link = -1;
  };
  struct Best {
    double seconds = kInfinity;
    int devices = 0;
    int k = -1, j = -1, u = -1, q = -1, x = -1;
  };

  Cell& At(int k, int j, int u, int q, int x) {
    const int pair = pair_[static_cast<size_t>(u) * S_ + q];
    return cells_[((static_cast<size_t>(k) * N_ + j) * pairs_ + pair) * L_ + x];
  }

  // T(Q, i..j) with these links before and behind.
  double Cost(int q, int i, int j, int in, int out) {
    const auto compute = [&] {
      return cluster_.cost().Seconds(kinds_[q], i, j, links_[within_[q]],
                                     links_[in], links_[out]);
    };
    if (costs_.empty()) return compute();
    double& seconds =
        costs_[(((static_cast<size_t>(q) * N_ + j) * N_ + i) * L_ + in) * L_ +
               out];
    if (seconds < 0) seconds = compute();
    return seconds;
  }

  void Extend(int k, int j, int u, int q, int x) {
    const double behind = At(k, j, u, q, x).seconds;
    if (behind > best_.seconds * (1 + kSame)) return;
    Part part;
    part.last = j;
    part.counts = sets_.counts(q);
    const int next = counted_ ? k + 1 : k;
    const std::vector<int>& before = parts_[sets_.all() - u];
    for (int i = j; i >= 0; --i) {
      if (cluster_.cost().LeastSeconds(kinds_[q], i, j) >
          best_.seconds * (1 + kSame)) {
        return;
      }
      part.first = i;
      if (!cluster_.Fits(part, sets_.devices(u) - sets_.devices(q))) continue;
      if (i == 0) {
        Finish(std::max(behind, Cost(q, 0, j, 0, x)), k, j, u, q, x);
        return;
      }
      if (next == K_ && counted_) continue;
      for (const int p : before) {
        const int in = between_[static_cast<size_t>(p) * S_ + q];
        const double seconds = std::max(behind, Cost(q, i, j, in, x));
        if (seconds > best_.seconds * (1 + kSame)) continue;
        Cell& cell = At(next, i - 1, u + p, p, in);
        if (seconds < cell.seconds) {
          cell = {seconds, q, static_cast<int16_t>(j), static_cast<int16_t>(x)};
        }
      }
    }
  }

  void Finish(double seconds, int k, int j, int u, int q, int x) {
    if (cluster_.input().stages > 0 && k + 1 != cluster_.input().stages) return;
    const bool as_good = seconds <= best_.seconds * (1 + kSame);
    if (seconds < best_.seconds * (1 - kSame) ||
        (as_good && sets_.devices(u) < best_.devices)) {
      best_ = {
          std::min(seconds, best_.seconds), sets_.devices(u), k, j, u, q, x};
    }
  }

  Layout Read() {
    Layout layout;
    if (best_.u < 0) return layout;
    int first = 0;
    for (Best at = best_;;) {
      layout.push_back({first, at.j, sets_.counts(at.q)});
      const Cell cell = At(at.k, at.j, at.u, at.q, at.x);
      if (cell.set < 0) return layout;
      first = at.j + 1;
      at.u -= at.q;
      at.q = cell.set;
      at.j = cell.last;
      at.x = cell.link;
      if (counted_) --at.k;
    }
  }

  const Cluster& cluster_;
  const int N_;
  const int K_;
  const bool counted_;
  const Sets sets_;
  const int S_;
  int L_ = 0;
  int pairs_ = 0;
  std::vector<int> pair_;                // of (U, Q); -1: not inside
  std::vector<std::vector<int>> parts_;  // what a stage may be, inside U
  LinkTable links_;
  std::vector<int> within_;              // link among Q
  std::vector<std::vector<int>> kinds_;  // devices of each kind in Q
  std::vector<int> between_;             // link from P to Q
  std::vector<Cell> cells_;
  std::vector<double> costs_;  // below 0: not known yet
  Best best_;
};

}  // namespace

bool FewEnough(const Cluster& cluster) {
  const double layers = cluster.cost().layers();
  const double stages = CountedStages(cluster.input());
  double sets = 1;
  double pairs = 1;    // U and Q
  double triples = 1;  // and P
  for (const Group& group : cluster.groups()) {
    const auto n = static_cast<double>(group.members.size());
    sets *= n + 1;
    pairs *= (n + 1) * (n + 2) / 2;
    triples *= (n + 1) * (n + 2) * (n + 3) / 6;
    if (sets > kMostSets) return false;
  }
  // A slowest link has the bandwidth of one and the latency of another.
  const double links = 1 + double{1} * cluster.links() * cluster.links();
  return pairs * layers * stages * links <= kMostCells &&
         triples * layers * layers / 2 * stages <= kMostSteps;
}

Layout ExactLayout(const Cluster& cluster) {
  return Recurrence(cluster).Solve();
}

}  // namespace mixed
}  // namespace pipework
