// PipeDream's recurrence on one level with the number of stages as a third
// letter:
//
//   T(i, j, m)  seconds of one stage of layers i..j replicated m times
//   C(s)        seconds to move what crosses the cut after layer s, and back
//   A[k][j][m]  the slowest stage's seconds, at best, for layers 0..j in k
//               stages on m workers:
//
//   A[1][j][m] = T(0, j, m)
//   A[k][j][m] = min over s < j, m' < m of
//                  max( A[k-1][s][m - m'], C(s), T(s + 1, j, m') )
//
// Between equal times the partition with the smaller sum of squares of stage
// seconds wins: it spreads what is left over, so equal layers never give
// stages that differ by more than one layer.
#include "partitioner/algorithms/fixed_stages.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Cell {
  double seconds = kInfinity;
  double squares = 0;  // of stage seconds, for ties
  double layers = 0;   // squares of stage sizes, for ties of those
  int s = -1;          // last layer of the left part
  int m = 0;           // replicas of the right stage

  bool BetterThan(const Cell& other) const {
    // Sums differ by rounding alone between partitions that are the same.
    constexpr double kSame = 1e-12;
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
  explicit Recurrence(const PartitionInput& input)
      : input_(input),
        N_(input.layers()),
        M_(input.workers()),
        cells_(static_cast<size_t>(input.stages + 1) * N_ * (M_ + 1)) {
    weights_.push_back(0);
    seconds_.push_back(0);
    for (int l = 0; l < N_; ++l) {
      weights_.push_back(weights_.back() + input.weight_bytes[l]);
      seconds_.push_back(seconds_.back() + input.layer_seconds[l]);
    }
  }

  Partition Solve() {
    const int K = input_.stages;
    for (int k = 1; k <= K; ++k) {
      for (int j = k - 1; j < N_; ++j) {
        for (int m = k; m <= M_; ++m) A(k, j, m) = Best(k, j, m);
      }
    }
    Partition partition;
    partition.seconds = A(K, N_ - 1, M_).seconds;
    if (partition.seconds == kInfinity) return partition;
    int j = N_ - 1;
    int m = M_;
    for (int k = K; k >= 1; --k) {
      const Cell& cell = A(k, j, m);
      partition.stages.push_back({cell.s + 1, j, cell.m});
      j = cell.s;
      m -= cell.m;
    }
    std::reverse(partition.stages.begin(), partition.stages.end());
    partition.workers = partition.stages;
    return partition;
  }

 private:
  Cell& A(int k, int j, int m) {
    return cells_[(static_cast<size_t>(k) * N_ + j) * (M_ + 1) + m];
  }

  Cell Best(int k, int j, int m) {
    const int pinned = input_.replicas.empty() ? 0 : input_.replicas[k - 1];
    if (k == 1) {
      if (pinned != 0 && m != pinned) return {};
      const double t = T(0, j, m, 0);
      const double size = j + 1;
      return {t, t * t, size * size, -1, m};
    }
    Cell best;
    for (int s = k - 2; s < j; ++s) {
      for (int right = 1; right <= m - (k - 1); ++right) {
        if (pinned != 0 && right != pinned) continue;
        const Cell& left = A(k - 1, s, m - right);
        if (left.seconds > best.seconds) continue;
        const double t = T(s + 1, j, right, m - right);
        const double size = j - s;
        const Cell cell = {std::max({left.seconds, C(s), t}),
                           left.squares + t * t, left.layers + size * size, s,
                           right};
        if (cell.BetterThan(best)) best = cell;
      }
    }
    return best;
  }

  double T(int i, int j, int m, int before) const {
    if (input_.fits && !input_.fits(i, j, before, m)) return kInfinity;
    StageLoad load;
    load.compute_seconds = seconds_[j + 1] - seconds_[i];
    load.weight_bytes = weights_[j + 1] - weights_[i];
    load.input_bytes = i > 0 ? input_.cut_bytes[i - 1] : 0;
    load.output_bytes = j + 1 < input_.layers() ? input_.cut_bytes[j] : 0;
    return input_.cost_model->StageSeconds(load, m, input_.levels[0].link);
  }

  double C(int s) const {
    return input_.cost_model->CutSeconds(input_.cut_bytes[s],
                                         input_.levels[0].link);
  }

  const PartitionInput& input_;
  const int N_;
  const int M_;
  std::vector<double> seconds_;  // sums over layers before
  std::vector<double> weights_;
  std::vector<Cell> cells_;
};

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
  if (input.stages > input.layers()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "plan: the number of stages is ", input.stages, ", expected at most ",
        input.layers(), ", the number of layers"));
  }
  if (input.stages > input.workers()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "plan: the number of stages is ", input.stages, ", expected at most ",
        input.workers(), ", the number of devices"));
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
  Partition partition = Recurrence(input).Solve();
  if (partition.seconds == kInfinity) {
    return absl::FailedPreconditionError(
        absl::StrCat("no partition into ", input.stages, " stages over ",
                     input.workers(), " devices fits into memory"));
  }
  return partition;
}

}  // namespace pipework
