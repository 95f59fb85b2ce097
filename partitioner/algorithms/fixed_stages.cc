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
// The best partition of fewer states is found before, and another by halving
// what it may take (ways.h); their seconds are a limit to what is worth a look.
// It says for each stage on how many workers it is fast enough, and with these
// for each A[k][j] how many can have been used and are wanted after it.
#include "partitioner/algorithms/fixed_stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "partitioner/algorithms/lattice.h"
#include "partitioner/algorithms/ways.h"
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
// Ways times stages, of which a better limit takes longer than it spares.
constexpr double kManyWays = 2e7;
// On so few workers a look at every way costs less than a better limit.
constexpr int kFewWorkers = 64;
constexpr size_t kMostCells = size_t{1} << 25;  // of 40 bytes

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
  Recurrence(const PartitionInput& input, const Lattice& lattice)
      : input_(input),
        N_(lattice.size()),
        K_(input.stages),
        M_(input.workers()),
        lattice_(lattice),
        ways_(lattice, PipelinesOf(input, lattice)) {}

  // Seconds infinite: there is none below `limit`. ResourceExhausted: the table
  // is too big.
  absl::StatusOr<Partition> Solve(double limit) {
    // Looking at every way costs as much as a limit can spare.
    if (M_ > kFewWorkers && 1.0 * ways_.size() * K_ <= kManyWays) {
      limit = std::min(limit, ways_.QuickSeconds(limit));
    }
    limit_ = limit * kRounding;
    ways_.KeepBelow(limit_);
    RETURN_IF_ERROR(MakeRows());
    if (input_.fits) asked_.resize(M_ + 1);
    for (int j = 1; j <= N_; ++j) {
      for (const Way* way = ways_.begin(j); way < ways_.end(j); ++way) {
        for (int m = way->replicas.least; m <= way->replicas.most; ++m) {
          Offer(*way, m);
        }
      }
    }
    Partition partition;
    partition.seconds = kInfinity;
    if (RowOf(N_, K_).size() == 0) return partition;
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
  // The cells of k stages up to a state: so many workers, from cells_[first].
  struct Row {
    WorkerRange used;
    size_t first = 0;

    int size() const { return used.size(); }
  };
  // Numbers of stages up to a state.
  struct Stages {
    int least = std::numeric_limits<int>::max();
    int most = -1;
  };

  static Pipelines PipelinesOf(const PartitionInput& input,
                               const Lattice& lattice) {
    const Link& link = input.levels[0].link;
    const CostModel* model = input.cost_model;
    Pipelines pipelines;
    pipelines.end = lattice.size();
    pipelines.workers = input.workers();
    // Every other stage takes a worker at least.
    pipelines.widest = input.straight ? 1 : input.workers() - input.stages + 1;
    pipelines.stages = input.stages;
    pipelines.idle = input.fewer_workers;
    pipelines.replicas = input.replicas;
    pipelines.stage_seconds = [model, &lattice, &link](int i, int j, int m) {
      return model->StageSeconds(lattice.Load(i, j), m, link);
    };
    pipelines.cut_seconds = [model, &lattice, &link](int s) {
      return model->CutSeconds(lattice.CutBytes(s), link);
    };
    if (input.fits) {
      pipelines.fits = [&input](int i, int j, int m, int before) {
        return input.fits(i, j - 1, before, m);
      };
    }
    return pipelines;
  }

  absl::Status MakeRows() {
    rows_.resize(static_cast<size_t>(N_ + 1) * (K_ + 1));
    stages_.assign(N_ + 1, {});
    size_t cells = 0;
    for (int j = 0; j <= N_; ++j) {
      for (int k = 0; k <= K_; ++k) {
        Row& row = RowOf(j, k);
        row = {ways_.Used(j, k), cells};
        if (row.size() == 0) continue;
        cells += row.size();
        stages_[j].least = std::min(stages_[j].least, k);
        stages_[j].most = k;
      }
    }
    if (cells > kMostCells) {
      return absl::ResourceExhaustedError(MismatchText(
          "partitioner fixed_stages", "the cells of its table",
          absl::StrCat(cells), absl::StrCat("at most ", kMostCells),
          "use fewer stages or devices, or coarser layers"));
    }
    cells_.assign(cells, Cell());
    const Row& nothing = RowOf(0, 0);
    for (int m = 0; m < nothing.size(); ++m) {
      cells_[nothing.first + m].seconds = 0;
    }
    return absl::OkStatus();
  }

  Row& RowOf(int j, int k) {
    return rows_[static_cast<size_t>(j) * (K_ + 1) + k];
  }
  // REQUIRES: `m` is in its row.
  Cell& A(int k, int j, int m) {
    const Row& row = RowOf(j, k);
    return cells_[row.first + m - row.used.least];
  }

  // The stage of `way` with `m` replicas, behind whatever comes before it.
  void Offer(const Way& way, int m) {
    const int s = way.from;
    const int j = way.to;
    const double t = input_.cost_model->StageSeconds(lattice_.Load(s, j), m,
                                                     input_.levels[0].link);
    if (t > limit_ || t == kInfinity) return;
    const double slower = std::max(t, way.cut);
    const double size = lattice_.Rank(j) - lattice_.Rank(s);
    ++asking_;
    const int k_last = std::min(stages_[s].most + 1, stages_[j].most);
    for (int k = std::max(stages_[s].least + 1, stages_[j].least); k <= k_last;
         ++k) {
      if (!Pinned(k, m)) continue;
      const Row& left_row = RowOf(s, k - 1);
      const Row& row = RowOf(j, k);
      if (left_row.size() == 0 || row.size() == 0) continue;
      const int left_last = std::min(left_row.used.most, row.used.most - m);
      for (int left = std::max(left_row.used.least, row.used.least - m);
           left <= left_last; ++left) {
        const Cell& before =
            cells_[left_row.first + left - left_row.used.least];
        if (before.seconds == kInfinity) continue;
        const Cell cell = {std::max(before.seconds, slower),
                           before.squares + t * t, before.layers + size * size,
                           s, m};
        Cell& best = cells_[row.first + left + m - row.used.least];
        if (!cell.BetterThan(best)) continue;
        if (input_.fits && !Fits(s, j, m, left)) continue;
        best = cell;
      }
    }
  }

  bool Pinned(int k, int m) const {
    return input_.replicas.empty() || input_.replicas[k - 1] == m;
  }

  // Asks once for all k.
  bool Fits(int i, int j, int m, int before) {
    Answer& answer = asked_[before];
    if (answer.asking != asking_) {
      answer = {asking_, input_.fits(i, j - 1, before, m)};
    }
    return answer.fits;
  }

  struct Answer {
    int64_t asking = 0;
    bool fits = false;
  };

  const PartitionInput& input_;
  const int N_;
  const int K_;
  const int M_;
  const Lattice& lattice_;
  Ways ways_;
  double limit_ = kInfinity;
  std::vector<Row> rows_;       // by state, then by stages up to it
  std::vector<Stages> stages_;  // by state
  std::vector<Cell> cells_;
  std::vector<Answer> asked_;  // by workers before the stage in work
  int64_t asking_ = 0;
};

// Seconds infinite: there is none.
absl::StatusOr<Partition> Best(const PartitionInput& input) {
  const Lattice lattice(input);
  double limit = kInfinity;
  const int fewer = std::max(lattice.size() / 4, 4 * input.stages);
  if (lattice.size() > kFewStates && fewer <= lattice.size() / 2) {
    const PartitionInput coarse = lattice.Coarse(fewer);
    if (coarse.layers() >= input.stages) {
      const absl::StatusOr<Partition> best = Best(coarse);
      if (best.ok()) limit = best->seconds;
    }
  }
  return Recurrence(input, lattice).Solve(limit);
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
  ASSIGN_OR_RETURN(Partition partition, Best(input));
  if (partition.seconds == kInfinity) {
    return absl::FailedPreconditionError(
        absl::StrCat("no partition into ", input.stages, " stages over ",
                     input.workers(), " devices fits into memory"));
  }
  return partition;
}

}  // namespace pipework
