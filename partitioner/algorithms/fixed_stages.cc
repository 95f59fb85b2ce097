// PipeDream's recurrence on one level with the number of stages as a third
// letter:
//
//   i -> j      the stage that turns state i into state j; for a chain of
//               layers: layers i+1..j
//   T(i, j, m)  seconds of stage i -> j replicated m times
//   C(s)        seconds to move what crosses the rim of state s, and back
//   A[k][j][m]  the slowest stage's seconds, at best, for state j in k stages
//               on m workers:
//
//   A[1][j][m] = T(0, j, m)
//   A[k][j][m] = min over s inside j, m' < m of
//                  max( A[k-1][s][m - m'], C(s), T(s, j, m') )
//
// Between equal times the partition with the smaller sum of squares of stage
// seconds wins, then of stage sizes: it spreads what is left over, so equal
// layers never give stages that differ by more than one layer.
//
// The best partition of fewer states is found before; its seconds are a limit
// to what is worth a look. As T is never below its computing divided by m, they
// also say how few workers can have made a state, and how many are wanted for
// what comes after.
#include "partitioner/algorithms/fixed_stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "partitioner/algorithms/lattice.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Sums differ by rounding alone between partitions that are the same.
constexpr double kSame = 1e-12;
constexpr double kRounding = 1 + 1e-9;
// Inputs of so few states are not worth a coarse partition.
constexpr int kFewStates = 64;

struct Cell {
  double seconds = kInfinity;
  double squares = 0;  // of stage seconds, for ties
  double layers = 0;   // squares of stage sizes, for ties of those
  int s = -1;          // the left part
  int m = 0;           // replicas of the right stage; 0: there is none

  bool BetterThan(const Cell& other) const {
    if (other.seconds == kInfinity) return seconds < kInfinity;
    const auto less = [](double a, double b) {
      return a < b - kSame * std::max(a, b);
    };
    if (less(seconds, other.seconds)) return true;
    if (less(other.seconds, seconds)) return false;
    if (less(squares, other.squares)) return true;
    if (less(other.squares, squares)) return false;
    return layers < other.layers;
  }
};

class Recurrence {
 public:
  Recurrence(const PartitionInput& input, const Lattice& lattice, double limit)
      : input_(input),
        lattice_(lattice),
        N_(lattice.size()),
        K_(input.stages),
        M_(input.workers()),
        spare_(M_ - K_),
        limit_(limit * kRounding),
        cells_(static_cast<size_t>(N_ + 1) * (K_ + 1) * (spare_ + 1)) {
    for (int j = 0; j <= N_; ++j) {
      fewest_.push_back(Needed(0, j));
      most_.push_back(M_ - Needed(j, N_));
    }
  }

  Partition Solve() {
    for (int j = 1; j <= N_; ++j) {
      for (const int s : lattice_.Inside(j)) {
        if (s > 0 && C(s) > limit_) continue;
        // Every other stage takes a worker at least.
        for (int m = std::max(1, Needed(s, j)); m <= spare_ + 1; ++m) {
          if (input_.straight && m > 1) break;
          Offer(s, j, m);
        }
      }
    }
    Partition partition;
    partition.seconds = A(K_, N_, M_).seconds;
    if (partition.seconds == kInfinity) return partition;
    int j = N_;
    int m = M_;
    for (int k = K_; k >= 1; --k) {
      const Cell& cell = A(k, j, m);
      partition.stages.push_back(lattice_.Cut(cell.s, j, cell.m));
      j = cell.s;
      m -= cell.m;
    }
    std::reverse(partition.stages.begin(), partition.stages.end());
    partition.workers = partition.stages;
    return partition;
  }

 private:
  // REQUIRES: k <= m <= k + spare.
  Cell& A(int k, int j, int m) {
    return cells_[(static_cast<size_t>(j) * (K_ + 1) + k) * (spare_ + 1) + m -
                  k];
  }

  // The stage s -> j with `m` replicas, behind whatever made s.
  void Offer(int s, int j, int m) {
    const double t = input_.cost_model->StageSeconds(lattice_.Load(s, j), m,
                                                     input_.levels[0].link);
    if (t > limit_ || t == kInfinity) return;
    const double cut = s > 0 ? C(s) : 0;
    const double size = lattice_.Rank(j) - lattice_.Rank(s);
    if (s == 0) {
      const int k = 1;
      if (K_ == 1 && j < N_) return;
      if (!Pinned(k, m)) return;
      const int idle = input_.fewer_workers ? spare_ + 1 - m : 0;
      for (int before = 0; before <= idle; ++before) {
        const Cell cell = {t, t * t, size * size, 0, m};
        Cell& best = A(k, j, before + m);
        if (cell.BetterThan(best) && Fits(s, j, m, before)) best = cell;
      }
      return;
    }
    const int k_first = std::max(2, j == N_ ? K_ : 2);
    const int k_last = j == N_ ? K_ : K_ - 1;
    const int left_last = std::min(most_[s], most_[j] - m);
    for (int left = std::max(fewest_[s], fewest_[j] - m); left <= left_last;
         ++left) {
      bool asked = false;
      for (int k = std::max(k_first, left + m - spare_);
           k <= std::min(k_last, left + 1); ++k) {
        const Cell& before = A(k - 1, s, left);
        if (before.m == 0 || !Pinned(k, m)) continue;
        const Cell cell = {std::max({before.seconds, cut, t}),
                           before.squares + t * t, before.layers + size * size,
                           s, m};
        Cell& best = A(k, j, left + m);
        if (!cell.BetterThan(best)) continue;
        if (!asked && !Fits(s, j, m, left)) break;
        asked = true;
        best = cell;
      }
    }
  }

  bool Pinned(int k, int m) const {
    return input_.replicas.empty() || input_.replicas[k - 1] == m;
  }

  bool Fits(int i, int j, int m, int before) const {
    return !input_.fits || input_.fits(i, j - 1, before, m);
  }

  // The fewest workers that can keep i -> j below the limit, at most one more
  // than there are.
  int Needed(int i, int j) const {
    const double seconds = lattice_.Seconds(i, j);
    if (seconds <= 0) return 0;
    const double needed = std::ceil(seconds / (limit_ * kRounding));
    return needed > M_ ? M_ + 1 : static_cast<int>(needed);
  }

  double C(int s) const {
    return input_.cost_model->CutSeconds(lattice_.CutBytes(s),
                                         input_.levels[0].link);
  }

  const PartitionInput& input_;
  const Lattice& lattice_;
  const int N_;
  const int K_;
  const int M_;
  const int spare_;  // workers beyond one for each stage
  const double limit_;
  std::vector<int> fewest_;  // workers that can make each state
  std::vector<int> most_;    // and that leave enough for the rest
  std::vector<Cell> cells_;
};

// Seconds infinite: there is none.
Partition Best(const PartitionInput& input) {
  const Lattice lattice(input);
  double limit = kInfinity;
  const int fewer = std::max(lattice.size() / 4, 4 * input.stages);
  if (lattice.size() > kFewStates && fewer <= lattice.size() / 2) {
    const PartitionInput coarse = lattice.Coarse(fewer);
    if (coarse.layers() >= input.stages) limit = Best(coarse).seconds;
  }
  return Recurrence(input, lattice, limit).Solve();
}

}  // namespace

absl::StatusOr<Partition> FixedStages(const PartitionInput& input) {
  RETURN_IF_ERROR(CheckPartitionInput(input));
  if (input.levels.size() != 1) {
    return Mismatch("partitioner fixed_stages", "the number of levels",
                    absl::StrCat(input.levels.size()), "1");
  }
  if (input.stages < 1) {
    return Mismatch("partitioner fixed_stages", "the number of stages",
                    absl::StrCat(input.stages), "1 or more");
  }
  if (input.max_stages > 0 && input.stages > input.max_stages) {
    return Mismatch("partitioner fixed_stages", "the number of stages",
                    absl::StrCat(input.stages),
                    absl::StrCat("at most ", input.max_stages));
  }
  // A graph has more states than layers.
  const int layers = input.predecessors.empty()
                         ? input.layers()
                         : Lattice(input).Rank(input.layers());
  if (input.stages > layers) {
    return absl::FailedPreconditionError(
        absl::StrCat("plan: the number of stages is ", input.stages,
                     ", expected at most ", layers, ", the number of layers"));
  }
  if (input.stages > input.workers()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "plan: the number of stages is ", input.stages, ", expected at most ",
        input.workers(), ", the number of devices"));
  }
  if (input.straight && !input.fewer_workers &&
      input.stages < input.workers()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "plan: the number of stages of a straight pipeline is ", input.stages,
        ", expected ", input.workers(), ", the number of devices"));
  }
  if (!input.replicas.empty() &&
      (static_cast<int>(input.replicas.size()) != input.stages ||
       std::accumulate(input.replicas.begin(), input.replicas.end(), 0) !=
           input.workers())) {
    return Mismatch("partitioner fixed_stages", "the pinned replicas",
                    absl::StrCat("of ", input.replicas.size(), " stages"),
                    absl::StrCat("of ", input.stages, " stages, ",
                                 input.workers(), " in all"));
  }
  Partition partition = Best(input);
  if (partition.seconds == kInfinity) {
    return absl::FailedPreconditionError(
        absl::StrCat("no partition into ", input.stages, " stages over ",
                     input.workers(), " devices fits into memory"));
  }
  return partition;
}

}  // namespace pipework
