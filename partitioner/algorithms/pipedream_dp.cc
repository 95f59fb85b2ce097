// The partitioning recurrences of PipeDream (Narayanan et al., SOSP 2019,
// section 3.1), over levels k = 1..L of the machine.
//
//   i..j         layers, inclusive
//   m            components of level k; level 0 is one worker, m_0 = 1
//   B_k          the link between components of level k
//   A^0(i, j)    sum of the layers' seconds
//   T^k(i, j, m) seconds of one stage of layers i..j replicated m times, whose
//                computing takes A^{k-1}(i, j, m_{k-1}) seconds
//   C^k(s)       seconds to move what crosses the cut after layer s and its
//                gradient back
//   A^k(i, j, m) the slowest stage's seconds, at best:
//
//   A^k(i, j, m) = min( T^k(i, j, m),
//                       min over i <= s < j, 1 <= m' < m of
//                         max( A^k(i, s, m - m'), C^k(s),
//                              T^k(s + 1, j, m') ) )
//
// Each cell keeps the smallest (seconds, number of stages), then the smallest
// s, then the smallest m'. T and C are the cost model's.
#include "partitioner/algorithms/pipedream_dp.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Cell {
  double seconds = kInfinity;
  int stages = 0;
  int s = -1;  // last layer of the left part; -1: one stage
  int m = 0;   // m' of the right stage, or all m
};

// The table A^k of one level.
class Table {
 public:
  Table(int layers, int components)
      : layers_(layers),
        components_(components),
        cells_(static_cast<size_t>(layers) * layers * (components + 1)) {}

  Cell& At(int i, int j, int m) {
    return cells_[(static_cast<size_t>(i) * layers_ + j) * (components_ + 1) +
                  m];
  }
  const Cell& At(int i, int j, int m) const {
    return const_cast<Table*>(this)->At(i, j, m);
  }
  int components() const { return components_; }

 private:
  int layers_;
  int components_;
  std::vector<Cell> cells_;
};

class Recurrences {
 public:
  explicit Recurrences(const PartitionInput& input) : input_(input) {
    weights_.push_back(0);
    seconds_.push_back(0);
    for (int l = 0; l < input.layers(); ++l) {
      weights_.push_back(weights_.back() + input.weight_bytes[l]);
      seconds_.push_back(seconds_.back() + input.layer_seconds[l]);
    }
  }

  Partition Solve() {
    for (size_t k = 0; k < input_.levels.size(); ++k) Fill(k);
    const int top = static_cast<int>(tables_.size()) - 1;
    const int m = tables_[top].components();
    Partition partition;
    partition.seconds = tables_[top].At(0, input_.layers() - 1, m).seconds;
    if (partition.seconds == kInfinity) return partition;
    partition.stages = Stages(top, 0, input_.layers() - 1, m);
    for (const StageCut& stage : partition.stages) {
      Expand(top, stage, &partition.workers);
    }
    return partition;
  }

 private:
  void Fill(size_t k) {
    const int N = input_.layers();
    const int m_k = input_.levels[k].components;
    const bool outermost = k + 1 == input_.levels.size();
    tables_.emplace_back(N, m_k);
    Table& A = tables_.back();
    // The outermost level only needs the parts that begin with layer 0.
    for (int i = 0; i < (outermost ? 1 : N); ++i) {
      for (int j = i; j < N; ++j) {
        for (int m = 1; m <= m_k; ++m) {
          Cell best = {T(k, i, j, m, 0), 1, -1, m};
          for (int s = i; s < j; ++s) {
            for (int right = 1; right < m; ++right) {
              const Cell& left = A.At(i, s, m - right);
              if (left.seconds > best.seconds) continue;
              const double seconds = std::max(
                  {left.seconds, C(k, s), T(k, s + 1, j, right, m - right)});
              const int stages = left.stages + 1;
              if (std::make_pair(seconds, stages) <
                  std::make_pair(best.seconds, best.stages)) {
                best = {seconds, stages, s, right};
              }
            }
          }
          A.At(i, j, m) = best;
        }
      }
    }
  }

  // T^k(i, j, m), with `before` components before it.
  double T(size_t k, int i, int j, int m, int before) const {
    if (input_.fits && !input_.fits(i, j, before, m)) return kInfinity;
    const double compute =
        k == 0 ? seconds_[j + 1] - seconds_[i]
               : tables_[k - 1].At(i, j, tables_[k - 1].components()).seconds;
    StageLoad load;
    load.compute_seconds = compute;
    load.weight_bytes = weights_[j + 1] - weights_[i];
    load.input_bytes = i > 0 ? input_.cut_bytes[i - 1] : 0;
    load.output_bytes = j + 1 < input_.layers() ? input_.cut_bytes[j] : 0;
    return input_.cost_model->StageSeconds(load, m, input_.levels[k].link);
  }

  double C(size_t k, int s) const {
    return input_.cost_model->CutSeconds(input_.cut_bytes[s],
                                         input_.levels[k].link);
  }

  // The stages of A^k(i, j, m), in order.
  std::vector<StageCut> Stages(int k, int i, int j, int m) const {
    std::vector<StageCut> stages;
    while (true) {
      const Cell& cell = tables_[k].At(i, j, m);
      stages.push_back({cell.s + 1 > i ? cell.s + 1 : i, j, cell.m});
      if (cell.s < 0) break;
      m -= cell.m;
      j = cell.s;
    }
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  // Replicas multiply: a stage of level k is, on each of its components, the
  // plan of level k - 1 for its layers.
  void Expand(int k, const StageCut& stage, std::vector<StageCut>* out) const {
    if (k == 0) {
      out->push_back(stage);
      return;
    }
    const int m = tables_[k - 1].components();
    for (StageCut inner : Stages(k - 1, stage.first, stage.last, m)) {
      inner.replicas *= stage.replicas;
      Expand(k - 1, inner, out);
    }
  }

  const PartitionInput& input_;
  std::vector<double> seconds_;  // sums over layers before
  std::vector<double> weights_;
  std::vector<Table> tables_;
};

}  // namespace

absl::StatusOr<Partition> PipedreamDp(const PartitionInput& input) {
  RETURN_IF_ERROR(CheckPartitionInput(input));
  if (input.stages != 0 || (input.fits && input.levels.size() > 1)) {
    return Mismatch("partitioner pipedream_dp",
                    "a pinned number of stages or a memory limit over levels",
                    "given", "neither", "use fixed_stages");
  }
  Partition partition = Recurrences(input).Solve();
  if (partition.seconds == kInfinity) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no partition over ", input.workers(), " devices fits into memory"));
  }
  return partition;
}

}  // namespace pipework
