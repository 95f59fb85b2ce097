// The partitioning recurrences of PipeDream (Narayanan et al., SOSP 2019,
// section 3.1), over levels k = 1..L of the machine and the states of a graph.
//
//   i -> j       the stage that turns state i into state j, for i inside j; for
//                a chain of layers: layers i+1..j
//   m            components of level k; level 0 is one worker, m_0 = 1
//   B_k          the link between components of level k
//   A^0(i, j)    sum of the layers' seconds
//   T^k(i, j, m) seconds of one stage i -> j replicated m times, whose
//   computing
//                takes A^{k-1}(i, j, m_{k-1}) seconds
//   C^k(s)       seconds to move what crosses the rim of state s and its
//                gradient back
//   A^k(i, j, m) the slowest stage's seconds, at best:
//
//   A^k(i, j, m) = min( T^k(i, j, m),
//                       min over s between i and j, 1 <= m' < m of
//                         max( A^k(i, s, m - m'), C^k(s),
//                              T^k(s, j, m') ) )
//
// Each cell keeps the smallest (seconds, number of stages), then the smallest
// s, then the smallest m'. T and C are the cost model's.
//   fewer workers  T^k(i, j, m) reads: the best over m' <= m; fewest workers
//                  before the smallest s
//   straight       T^k with m > 1 is infinite
//   a limit of q   A and T take q as a fourth letter, their most stages of
//                  single workers, and a cut shares q out between its parts
//   memory         T is infinite where the stage does not fit; it and A below
//                  then also know how many workers lie before them
//
// How it is fast (the order of the loops changes no result):
//   - Values are found first, by rows over i, which lie side by side: right of
//     a cut nothing depends on i. Stages are found afterwards, for the few
//     parts that the best partition consists of.
//   - A partition of few states on one way through the graph is found before,
//     and at the outermost level another by halving what it may take (ways.h);
//     their seconds are a limit to whatever is worth a look, as T is never
//     below its computing divided by m. The limit of an inner level is that of
//     the outer, times the components that may share the work.
//   - Where stages are found, the limit says for each of them with how many
//     components it is fast enough, and with these for each state how many can
//     have been used up to it and are wanted after it. Of what is left, blocks
//     of numbers are passed over whose best cannot beat their worst.
//   - The outermost level needs i = 0 only.
#include "partitioner/algorithms/pipedream_dp.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "partitioner/algorithms/lattice.h"
#include "partitioner/algorithms/max_min.h"
#include "partitioner/algorithms/ways.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Limits are products and quotients of the times they are compared with.
constexpr double kRounding = 1 + 1e-9;
// Inputs of so few states are not worth a coarse partition.
constexpr int kFewStates = 32;
constexpr int kCoarseStates = 96;
constexpr double kMostContexts = 600;
constexpr double kMostTableBytes = 2.0 * (1 << 30);
// Of so many a better limit takes longer to find than it spares.
constexpr size_t kManyWays = 400000;

// What a part of the pipeline knows of the levels around it, in workers.
struct Context {
  int before = 0;
  int times = 1;  // each of its workers stands for so many
};

// A stage of one level.
struct Step {
  int from = 0;
  int to = 0;
  int m = 1;
  int before = 0;  // components of this level
  int q = 1;       // its most stages of single workers
};

struct Cell {
  double seconds = kInfinity;
  int stages = 0;
  int workers = 0;  // components of this level, without idle ones
  int s = 0;
  int m = 0;       // 0: there is none
  int q = 1;       // of the right stage
  int left_q = 1;  // of the left part

  bool operator<(const Cell& other) const {
    return std::tie(seconds, stages, workers) <
           std::tie(other.seconds, other.stages, other.workers);
  }
};

struct Solution {
  Partition partition;
  std::vector<int> before;  // workers before each of partition.workers
};

class Recurrences {
 public:
  // `limit`: no partition slower than this matters.
  Recurrences(const PartitionInput& input, const Lattice& lattice, double limit,
              bool memory, bool budget)
      : input_(input),
        lattice_(lattice),
        N_(lattice.size()),
        L_(static_cast<int>(input.levels.size())),
        memory_(memory),
        budget_(budget),
        width_(L_, 1),
        limit_(L_, limit) {
    for (int k = 1; k < L_; ++k) width_[k] = width_[k - 1] * Components(k - 1);
    for (int k = L_ - 1; k > 0; --k) {
      limit_[k - 1] = limit_[k] * Components(k) * kRounding;
    }
  }

  // Seconds infinite: there is none.
  Solution Solve() {
    Solution solution;
    const int top = L_ - 1;
    std::vector<Step> steps;
    solution.partition.seconds =
        Steps(top, {}, 0, N_, Budget(top), limit_[top], &steps);
    for (const Step& step : steps) {
      solution.partition.stages.push_back(
          lattice_.Cut(step.from, step.to, step.m));
      Expand(top, {}, step, &solution);
    }
    return solution;
  }

 private:
  // A^k(i, j, m_k) for all i inside j, by the most stages q.
  struct Table {
    std::vector<double> cells;
    size_t pairs = 0;

    double At(int i, int j, int q) const {
      return cells[(q - 1) * pairs + RowOf(j) + i];
    }
  };

  // Where the row of all i < j begins.
  static size_t RowOf(int j) { return static_cast<size_t>(j) * (j - 1) / 2; }

  int Components(int k) const { return input_.levels[k].components; }

  // How many different q there are; 1 where nobody counts.
  int Budget(int k) const {
    if (!budget_) return 1;
    return std::min(input_.max_stages, width_[k] * Components(k));
  }
  int StageBudget(int k) const { return k == 0 ? 1 : Budget(k - 1); }
  // Of two parts together.
  int Sum(int left_q, int right_q) const {
    return budget_ ? left_q + right_q : 1;
  }

  // The least number of components of level k that can bring i -> j below
  // `limit`, at most `m` + 1.
  int Needed(int k, int i, int j, double limit, int m) const {
    const double seconds = lattice_.Seconds(i, j) / width_[k];
    if (seconds <= 0) return 0;
    const double needed = std::ceil(seconds / (limit * kRounding));
    return needed > m ? m + 1 : static_cast<int>(needed);
  }

  Context Inside(int k, const Context& context, int m, int before) const {
    return {context.before + context.times * before * width_[k],
            context.times * m};
  }

  bool Fits(const Context& context, int i, int j, int m, int before) const {
    return input_.fits(i, j - 1, context.before + context.times * before,
                       context.times * m);
  }

  // T^k without the memory of level 0.
  double T(int k, const Context& context, int i, int j, int m, int before,
           int q) {
    StageLoad load = lattice_.Load(i, j);
    if (k > 0) {
      load.compute_seconds =
          TableOf(k - 1, Inside(k, context, m, before)).At(i, j, q);
      if (load.compute_seconds == kInfinity) return kInfinity;
      load.inner_components = Components(k - 1);
    }
    return input_.cost_model->StageSeconds(load, m, input_.levels[k].link);
  }

  double C(int k, int s) const {
    return input_.cost_model->CutSeconds(lattice_.CutBytes(s),
                                         input_.levels[k].link);
  }

  const Table& TableOf(int k, const Context& context) {
    // Without memory all contexts are one.
    const auto key = memory_ ? std::make_tuple(k, context.before, context.times)
                             : std::make_tuple(k, 0, 1);
    const auto known = tables_.find(key);
    if (known != tables_.end()) return known->second;
    Table table = Rows(this, k, context).Fill();
    return tables_.emplace(key, std::move(table)).first->second;
  }

  // Fills the table of a level that is not the outermost.
  class Rows {
   public:
    Rows(Recurrences* outer, int k, const Context& context)
        : outer_(*outer),
          k_(k),
          context_(context),
          N_(outer->N_),
          M_(outer->Components(k)),
          Q_(outer->Budget(k)),
          right_Q_(outer->StageBudget(k)),
          widest_(outer->input_.straight ? 1 : M_),
          places_(outer->memory_ ? M_ : 1),
          limit_(outer->limit_[k]),
          rows_(static_cast<size_t>(M_) * Q_),
          cells_(RowOf(N_ + 1) * rows_, kInfinity),
          first_((N_ + 1) * rows_),
          pieces_(N_ / kPiece + 1),
          above_limit_(std::nextafter(limit_, kInfinity)),
          least_((N_ + 1) * rows_ * pieces_),
          greatest_(kBlock * rows_ * pieces_),
          stages_(static_cast<size_t>(kBlock) * M_ * places_ * right_Q_) {}

    // States by blocks: a left part is then read once for all of a block.
    Table Fill() {
      for (int begin = 1; begin <= N_; begin += kBlock) {
        const int end = std::min(N_ + 1, begin + kBlock);
        for (int j = begin; j < end; ++j) {
          Price(j);
          std::vector<char>& holds = holds_[j % kBlock];
          holds.assign(j, 0);
          for (const int s : outer_.lattice_.Inside(j)) holds[s] = 1;
          KeepGreatest(j);
        }
        // From coarse to fine: with what the first few cuts reach, most of the
        // others cannot compete.
        int cuts = 0;
        for (int stride = kStride; stride > 0; stride /= 2) {
          const bool first = stride == kStride;
          for (int s = stride; s < begin; s += first ? stride : 2 * stride) {
            const bool refresh = ++cuts % kRefresh == 0;
            for (int j = begin; j < end; ++j) {
              if (holds_[j % kBlock][s] == 0) continue;
              Combine(s, j);
              if (refresh) KeepGreatest(j);
            }
          }
        }
        for (int s = begin; s < end; ++s) {
          // Nothing is left to combine with a state when it is reached.
          Finish(s);
          for (int j = s + 1; j < end; ++j) {
            if (holds_[j % kBlock][s] != 0) Combine(s, j);
          }
        }
      }
      Table table;
      table.pairs = RowOf(N_ + 1);
      table.cells.resize(table.pairs * Q_);
      for (int q = 1; q <= Q_; ++q) {
        for (int j = 1; j <= N_; ++j) {
          std::copy_n(Cells(j, M_, q), j,
                      table.cells.begin() + (q - 1) * table.pairs + RowOf(j));
        }
      }
      return table;
    }

   private:
    static constexpr int kBlock = 8;
    static constexpr int kStride = 64;  // between the first cuts
    static constexpr int kRefresh = 8;  // cuts, until the greatest are new
    static constexpr int kPiece = 32;   // of a row

    // Of each piece of a row: the least of a finished state, the greatest of
    // one in the block at work, or what that once was.
    double* Least(int s, size_t row) {
      return least_.data() + (s * rows_ + row) * pieces_;
    }
    double* Greatest(int j, size_t row) {
      return greatest_.data() + ((j % kBlock) * rows_ + row) * pieces_;
    }
    // Neither what is not inside j nor what is above the limit counts.
    void KeepGreatest(int j) {
      const std::vector<char>& holds = holds_[j % kBlock];
      for (int m = 1; m <= M_; ++m) {
        for (int q = 1; q <= Q_; ++q) {
          const double* cells = Cells(j, m, q);
          double* greatest = Greatest(j, Row(m, q));
          for (int i = 0; i < j; i += kPiece) {
            double most = -kInfinity;
            for (int n = i; n < std::min(j, i + kPiece); ++n) {
              if (holds[n] != 0) most = std::max(most, cells[n]);
            }
            greatest[i / kPiece] = std::min(most, above_limit_);
          }
        }
      }
    }
    // A(i, j, left + right) may be max(A(i, s, left), t): the pieces where that
    // can be less, several at once.
    void Improve(int s, size_t left_row, double t, int j, size_t row, int first,
                 const double* left, double* out) {
      const double* least = Least(s, left_row);
      const double* greatest = Greatest(j, row);
      for (int piece = first / kPiece; piece * kPiece < s;) {
        const int begin = piece;
        while (piece * kPiece < s &&
               std::max(least[piece], t) < greatest[piece]) {
          ++piece;
        }
        if (piece > begin) {
          const int i = std::max(first, begin * kPiece);
          MinOfMax(left + i, t, std::min(s, piece * kPiece) - i, out + i);
        }
        ++piece;
      }
    }

    size_t Row(int m, int q) const {
      return static_cast<size_t>(m - 1) * Q_ + q - 1;
    }
    // A(i, j, m, q) for all i < j.
    double* Cells(int j, int m, int q) {
      return cells_.data() + RowOf(j) * rows_ + Row(m, q) * j;
    }
    // T(i, j, m, q) for all i < j of the block at work.
    std::vector<double>& Stages(int j, int m, int before, int q) {
      const int place = places_ > 1 ? before : 0;
      return stages_[((static_cast<size_t>(j % kBlock) * M_ + m - 1) * places_ +
                      place) *
                         right_Q_ +
                     q - 1];
    }

    // All stages that end with j, and the pipelines that are one.
    void Price(int j) {
      for (int m = 1; m <= M_; ++m) {
        for (int before = 0; before < places_; ++before) {
          for (int q = 1; q <= right_Q_; ++q) {
            Stages(j, m, before, q).assign(j, kInfinity);
          }
        }
      }
      for (const int i : outer_.lattice_.Inside(j)) {
        for (int m = std::max(1, outer_.Needed(k_, i, j, limit_, M_));
             m <= widest_; ++m) {
          for (int before = 0; before < places_ && before + m <= M_; ++before) {
            if (outer_.memory_ && k_ == 0 &&
                !outer_.Fits(context_, i, j, m, before)) {
              continue;
            }
            for (int q = 1; q <= right_Q_; ++q) {
              const double t = outer_.T(k_, context_, i, j, m, before, q);
              if (t <= limit_) Stages(j, m, before, q)[i] = t;
            }
          }
        }
      }
      for (int m = 1; m <= M_; ++m) {
        for (int q = 1; q <= Q_; ++q) {
          double* out = Cells(j, m, q);
          for (int n = outer_.input_.fewer_workers ? 1 : m; n <= m; ++n) {
            const std::vector<double>& t =
                Stages(j, n, m - n, std::min(q, right_Q_));
            for (int i = 0; i < j; ++i) out[i] = std::min(out[i], t[i]);
          }
        }
      }
    }

    // All pipelines whose last stage is s -> j.
    void Combine(int s, int j) {
      const double cut = outer_.C(k_, s);
      if (cut > limit_) return;
      for (int right = 1; right < M_ && right <= widest_; ++right) {
        for (int left = 1; left + right <= M_; ++left) {
          for (int right_q = 1; right_q <= right_Q_; ++right_q) {
            const double t = std::max(cut, Stages(j, right, left, right_q)[s]);
            if (t > limit_ || t == kInfinity) continue;
            for (int left_q = 1; left_q <= Q_; ++left_q) {
              const int q = outer_.Sum(left_q, right_q);
              if (q > Q_) break;
              const int i = first_[s * rows_ + Row(left, left_q)];
              Improve(s, Row(left, left_q), t, j, Row(left + right, q), i,
                      Cells(s, left, left_q), Cells(j, left + right, q));
            }
          }
        }
      }
    }

    // Where each row of j begins to matter.
    void Finish(int j) {
      for (int m = 1; m <= M_; ++m) {
        for (int q = 1; q <= Q_; ++q) {
          const double* cells = Cells(j, m, q);
          int i = 0;
          while (i < j && (cells[i] > limit_ || cells[i] == kInfinity)) ++i;
          first_[j * rows_ + Row(m, q)] = i;
          double* least = Least(j, Row(m, q));
          for (i = 0; i < j; i += kPiece) {
            least[i / kPiece] =
                *std::min_element(cells + i, cells + std::min(j, i + kPiece));
          }
        }
      }
    }

    Recurrences& outer_;
    const int k_;
    const Context context_;
    const int N_;
    const int M_;
    const int Q_;
    const int right_Q_;
    const int widest_;
    const int places_;  // T depends on what comes before where memory counts
    const double limit_;
    const size_t rows_;
    std::vector<double> cells_;
    std::vector<int> first_;
    const size_t pieces_;
    const double above_limit_;
    std::vector<double> least_;
    std::vector<double> greatest_;
    std::array<std::vector<char>, kBlock> holds_;  // i inside j?
    std::vector<std::vector<double>> stages_;
  };

  // All that Ways wants to know of level k.
  Pipelines PipelinesOf(int k, const Context& context, int start, int end) {
    Pipelines pipelines;
    pipelines.start = start;
    pipelines.end = end;
    pipelines.workers = Components(k);
    pipelines.widest = input_.straight ? 1 : Components(k);
    pipelines.idle = input_.fewer_workers;
    pipelines.share = 1.0 / width_[k];
    pipelines.stage_seconds = [this, k, &context](int i, int j, int m) {
      return T(k, context, i, j, m, 0, 1);
    };
    pipelines.cut_seconds = [this, k](int s) { return C(k, s); };
    if (memory_) {
      pipelines.fits = [this, &context](int i, int j, int m, int before) {
        return Fits(context, i, j, m, before);
      };
    }
    return pipelines;
  }

  // A^k(start, end, m_k) with at most `most_q` stages, and its stages in order.
  // Infinite where it is above `limit`.
  double Steps(int k, const Context& context, int start, int end, int most_q,
               double limit, std::vector<Step>* steps) {
    // What comes before a stage matters to its seconds, or the number of its
    // stages to what follows.
    if (budget_ || (memory_ && k > 0)) {
      return CountedSteps(k, context, start, end, most_q, limit, steps);
    }
    Ways ways(lattice_, PipelinesOf(k, context, start, end));
    if (k == L_ - 1 && ways.size() <= kManyWays) {
      limit = std::min(limit, ways.QuickSeconds(limit) * kRounding);
    }
    ways.KeepBelow(limit);
    return LevelSteps(this, k, context, start, end, limit, &ways).Solve(steps);
  }

  // The recurrence where one number of workers is all that a part is known by:
  // of states up to j and m components the best (seconds, stages, workers), of
  // which the last two are one number, the rank. Of blocks of them the least
  // and the greatest say what cannot become better.
  class LevelSteps {
   public:
    LevelSteps(Recurrences* outer, int k, const Context& context, int start,
               int end, double limit, const Ways* ways)
        : outer_(*outer),
          ways_(*ways),
          k_(k),
          context_(context),
          start_(start),
          end_(end),
          stage_rank_(outer->Components(k) + 1),
          limit_(limit),
          rows_(end + 1) {}

    double Solve(std::vector<Step>* steps) {
      const bool idle = outer_.input_.fewer_workers;
      Row& first = rows_[start_];
      first = Row(ways_.Used(start_, 0));
      for (size_t n = 0; n < first.seconds.size(); ++n) {
        if (first.least + static_cast<int>(n) > 0 && !idle) break;
        first.seconds[n] = 0;
        first.ranks[n] = 0;
      }
      first.KeepLeast();
      for (int j = start_ + 1; j <= end_; ++j) FillRow(j);

      const Row& last = rows_[end_];
      int m = outer_.Components(k_);
      if (!last.Has(m) || last.SecondsOf(m) == kInfinity) return kInfinity;
      for (int j = end_; j != start_;) {
        const Step step = LastStep(j, m);
        steps->push_back(step);
        j = step.from;
        m = step.before;
      }
      std::reverse(steps->begin(), steps->end());
      return last.SecondsOf(outer_.Components(k_));
    }

   private:
    static constexpr int kBlock = 32;

    // The cells of one state, by workers used.
    struct Row {
      Row() = default;
      explicit Row(WorkerRange used)
          : least(used.least),
            seconds(used.size(), kInfinity),
            ranks(used.size(), std::numeric_limits<int>::max()),
            block_seconds((used.size() + kBlock - 1) / kBlock, kInfinity),
            block_ranks(block_seconds.size(), std::numeric_limits<int>::max()) {
      }

      bool Has(int m) const {
        return m >= least && m - least < static_cast<int>(seconds.size());
      }
      double SecondsOf(int m) const { return seconds[m - least]; }
      int RankOf(int m) const { return ranks[m - least]; }

      // Of each block the greatest while the row is filled, and the least once
      // it is full.
      void KeepGreatest(int block) {
        const auto [begin, end] = Block(block);
        block_seconds[block] =
            *std::max_element(seconds.begin() + begin, seconds.begin() + end);
        block_ranks[block] =
            *std::max_element(ranks.begin() + begin, ranks.begin() + end);
      }
      void KeepLeast() {
        for (size_t b = 0; b < block_seconds.size(); ++b) {
          const auto [begin, end] = Block(b);
          block_seconds[b] =
              *std::min_element(seconds.begin() + begin, seconds.begin() + end);
          block_ranks[b] =
              *std::min_element(ranks.begin() + begin, ranks.begin() + end);
        }
      }
      std::pair<int, int> Block(int block) const {
        return {block * kBlock, std::min(static_cast<int>(seconds.size()),
                                         (block + 1) * kBlock)};
      }

      int least = 0;
      std::vector<double> seconds;
      std::vector<int> ranks;
      std::vector<double> block_seconds;
      std::vector<int> block_ranks;
    };

    void FillRow(int j) {
      Row& row = rows_[j];
      row = Row(ways_.Used(j, 0));
      if (row.seconds.empty()) return;
      const Way* begin = ways_.begin(j);
      const int64_t count = ways_.end(j) - begin;
      // A few ways of all lengths first: with what they reach, most of the
      // others cannot compete.
      for (const int eighths : {0, 7, 6, 4, 2}) {
        if (count > 8) Offer(begin[count * eighths / 8], &row);
      }
      for (const Way* way = begin; way < ways_.end(j); ++way) Offer(*way, &row);
      row.KeepLeast();
    }

    // All pipelines whose last stage is `way`.
    void Offer(const Way& way, Row* row) {
      const Row& left = rows_[way.from];
      if (left.seconds.empty() || way.replicas.empty()) return;
      const double slowest = *std::max_element(row->block_seconds.begin(),
                                               row->block_seconds.end());
      const int last = static_cast<int>(left.seconds.size()) - 1;
      for (int m = way.replicas.least; m <= way.replicas.most; ++m) {
        // left.least + n + m lies in the row.
        const int shift = left.least + m - row->least;
        const int n_first = std::max(0, -shift);
        const int n_last =
            std::min(last, static_cast<int>(row->seconds.size()) - 1 - shift);
        if (n_first > n_last) continue;
        const double t = std::max(
            way.cut, outer_.T(k_, context_, way.from, way.to, m, 0, 1));
        if (t > limit_ || t > slowest) continue;
        for (int block = n_first / kBlock; block <= n_last / kBlock; ++block) {
          OfferBlock(way, m, t, block, n_first, n_last, shift, row);
        }
      }
    }

    void OfferBlock(const Way& way, int m, double t, int block, int n_first,
                    int n_last, int shift, Row* row) {
      const Row& left = rows_[way.from];
      n_first = std::max(n_first, block * kBlock);
      n_last = std::min(n_last, (block + 1) * kBlock - 1);
      const int low = (n_first + shift) / kBlock;
      const int high = (n_last + shift) / kBlock;
      const int rank = stage_rank_ + m;
      const double fastest = std::max(left.block_seconds[block], t);
      const double slowest =
          std::max(row->block_seconds[low], row->block_seconds[high]);
      if (fastest > slowest || fastest > limit_ || fastest == kInfinity) return;
      if (fastest == slowest &&
          left.block_ranks[block] >=
              std::max(row->block_ranks[low], row->block_ranks[high]) - rank) {
        return;
      }
      bool better = false;
      const bool memory = outer_.memory_;
      for (int n = n_first; n <= n_last; ++n) {
        const double seconds = std::max(left.seconds[n], t);
        double& best = row->seconds[n + shift];
        if (seconds > best || seconds > limit_ || seconds == kInfinity) {
          continue;
        }
        const int all = left.ranks[n] + rank;
        int& best_rank = row->ranks[n + shift];
        if (seconds == best && all >= best_rank) continue;
        if (memory &&
            !outer_.Fits(context_, way.from, way.to, m, left.least + n)) {
          continue;
        }
        best = seconds;
        best_rank = all;
        better = true;
      }
      if (!better) return;
      row->KeepGreatest(low);
      if (high != low) row->KeepGreatest(high);
    }

    // The stage that ends cell (j, m): smallest start, then fewest replicas.
    Step LastStep(int j, int m) {
      const Row& row = rows_[j];
      for (const Way* way = ways_.begin(j); way < ways_.end(j); ++way) {
        const Row& left = rows_[way->from];
        for (int right = way->replicas.least;
             right <= std::min(m, way->replicas.most); ++right) {
          if (!left.Has(m - right)) continue;
          const double before = left.SecondsOf(m - right);
          if (std::max(before, way->cut) > row.SecondsOf(m)) continue;
          if (left.RankOf(m - right) != row.RankOf(m) - stage_rank_ - right) {
            continue;
          }
          const double t = outer_.T(k_, context_, way->from, j, right, 0, 1);
          if (std::max({before, way->cut, t}) != row.SecondsOf(m)) continue;
          if (outer_.memory_ &&
              !outer_.Fits(context_, way->from, j, right, m - right)) {
            continue;
          }
          return {way->from, j, right, m - right, 1};
        }
      }
      PIPE_CHECK(false);
    }

    Recurrences& outer_;
    const Ways& ways_;
    const int k_;
    const Context context_;
    const int start_;
    const int end_;
    const int stage_rank_;  // of one stage more; a worker more counts one
    const double limit_;
    std::vector<Row> rows_;
  };

  // The same for all numbers of stages q, and where memory depends on what lies
  // before.
  double CountedSteps(int k, const Context& context, int start, int end,
                      int most_q, double limit, std::vector<Step>* steps) {
    const int M = Components(k);
    const int right_Q = std::min(StageBudget(k), most_q);
    const int widest = input_.straight ? 1 : M;
    const std::vector<bool> between = lattice_.Holding(start, end);
    std::vector<Cell> cells(static_cast<size_t>(end - start + 1) * (M + 1) *
                            most_q);
    const auto at = [&](int j, int m, int q) -> Cell& {
      return cells[(static_cast<size_t>(j - start) * (M + 1) + m) * most_q + q -
                   1];
    };
    // Components that are left for what comes after, and the fewest that any
    // partition below the limit has used up to a state.
    std::vector<int> most(end + 1, 0);
    std::vector<int> fewest(end + 1, M + 1);

    const auto visit = [&](int j) {
      most[j] = M - Needed(k, j, end, limit, M);
      for (const int s : lattice_.Inside(j)) {
        if (s < start || !between[s]) continue;
        const double cut = s == start ? 0 : C(k, s);
        if (cut > limit) continue;
        const int least_left = s == start ? 0 : fewest[s];
        const int m_end = std::min(widest, most[j] - least_left);
        for (int m = std::max(1, Needed(k, s, j, limit, M)); m <= m_end; ++m) {
          for (int q = 1; q <= right_Q; ++q) {
            double t = kInfinity;
            int known = -1;  // the `left` of t, which only then matters
                             // where memory counts
            // The part before the stage is `left` components; if it is empty,
            // they are idle.
            const auto offer = [&](int left, int left_q, const Cell& cell,
                                   Cell* best) {
              if (known < 0 || (memory_ && k > 0 && known != left)) {
                t = T(k, context, s, j, m, left, q);
                known = left;
              }
              const Cell next = {std::max({cell.seconds, cut, t}),
                                 cell.stages + 1,
                                 cell.workers + m,
                                 s,
                                 m,
                                 q,
                                 left_q};
              if (next.seconds > limit || !(next < *best)) return;
              if (memory_ && k == 0 && !Fits(context, s, j, m, left)) return;
              *best = next;
            };
            if (s == start) {
              const Cell nothing = {0, 0, 0, 0, 0, 0, 0};
              const int idle = input_.fewer_workers ? most[j] - m : 0;
              for (int left = 0; left <= idle; ++left) {
                for (int all_q = q; all_q <= most_q; ++all_q) {
                  offer(left, 0, nothing, &at(j, left + m, all_q));
                }
              }
              continue;
            }
            const int left_end = std::min(most[s], most[j] - m);
            for (int left = fewest[s]; left <= left_end; ++left) {
              for (int left_q = 1; left_q <= most_q; ++left_q) {
                const int all_q = Sum(left_q, q);
                if (all_q > most_q) break;
                const Cell& cell = at(s, left, left_q);
                if (cell.m == 0) continue;
                offer(left, left_q, cell, &at(j, left + m, all_q));
              }
            }
          }
        }
      }
      for (int m = most[j]; m > 0; --m) {
        for (int q = 1; q <= most_q; ++q) {
          if (at(j, m, q).m > 0) fewest[j] = m;
        }
      }
    };
    for (const int j : lattice_.Inside(end)) {
      if (j > start && between[j]) visit(j);
    }
    visit(end);

    int m = M;
    int q = most_q;
    const double seconds = at(end, m, q).seconds;
    if (seconds == kInfinity) return seconds;
    for (int j = end;;) {
      const Cell& cell = at(j, m, q);
      m -= cell.m;
      steps->push_back({cell.s, j, cell.m, m, cell.q});
      if (cell.s == start) break;
      j = cell.s;
      q = cell.left_q;
    }
    std::reverse(steps->begin(), steps->end());
    return seconds;
  }

  // Replicas multiply: a stage of level k is, on each of its components, the
  // plan of level k - 1 for its layers.
  void Expand(int k, const Context& context, const Step& step,
              Solution* solution) {
    if (k == 0) {
      solution->partition.workers.push_back(
          lattice_.Cut(step.from, step.to, context.times * step.m));
      solution->before.push_back(context.before + context.times * step.before);
      return;
    }
    const Context inside = Inside(k, context, step.m, step.before);
    const double seconds =
        TableOf(k - 1, inside).At(step.from, step.to, step.q);
    std::vector<Step> steps;
    const double found =
        Steps(k - 1, inside, step.from, step.to, step.q, seconds, &steps);
    PIPE_CHECK(found == seconds);
    for (const Step& inner : steps) Expand(k - 1, inside, inner, solution);
  }

  const PartitionInput& input_;
  const Lattice& lattice_;
  const int N_;
  const int L_;
  const bool memory_;
  const bool budget_;
  std::vector<int> width_;     // workers in a component of each level
  std::vector<double> limit_;  // of A^k
  std::map<std::tuple<int, int, int>, Table> tables_;
};

// In how many ways stages of outer levels can lie around one of the innermost.
double Contexts(const PartitionInput& input) {
  double contexts = 1;
  for (size_t k = 1; k < input.levels.size(); ++k) {
    const double m = input.levels[k].components;
    contexts *= m * (m + 1) / 2;
  }
  return contexts;
}

bool Allowed(const PartitionInput& input, const Solution& solution) {
  const std::vector<StageCut>& stages = solution.partition.workers;
  if (input.max_stages > 0 &&
      static_cast<int>(stages.size()) > input.max_stages) {
    return false;
  }
  if (!input.fits) return true;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (!input.fits(stages[s].first, stages[s].last, solution.before[s],
                    stages[s].replicas)) {
      return false;
    }
  }
  return true;
}

absl::Status NoPartition(const PartitionInput& input) {
  if (input.fits) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no partition over ", input.workers(), " devices fits into memory"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("plan: the number of layers of a straight pipeline is ",
                   input.layers(), ", expected at least ", input.workers(),
                   ", the number of devices; use fewer devices"));
}

// The tables of inner levels, without limits of stages or memory.
absl::Status CheckTables(const PartitionInput& input) {
  const double states = input.layers();
  for (size_t k = 0; k + 1 < input.levels.size(); ++k) {
    const double bytes = states * (states + 1) / 2 *
                         (input.levels[k].components + 1) * sizeof(double);
    if (bytes <= kMostTableBytes) continue;
    return absl::FailedPreconditionError(MismatchText(
        "partitioner pipedream_dp",
        absl::StrCat("the table of level ", k + 1, " (", states, " states, ",
                     input.levels[k].components, " components)"),
        absl::StrCat(bytes, " bytes"),
        absl::StrCat("at most ", kMostTableBytes),
        "join layers, or have fewer devices in an inner level"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Partition> Best(const PartitionInput& input) {
  RETURN_IF_ERROR(CheckTables(input));
  const Lattice lattice(input);
  double limit = kInfinity;
  if (lattice.size() > kFewStates) {
    const absl::StatusOr<Partition> coarse = Best(lattice.Coarse(
        std::clamp(lattice.size() / 4, kFewStates / 2, kCoarseStates)));
    if (coarse.ok()) limit = coarse->seconds;
  }

  // Limits are seldom reached: first without those that cost time.
  const bool levels = input.levels.size() > 1;
  Solution solution =
      Recurrences(input, lattice, limit, input.fits && !levels, false).Solve();
  if (solution.partition.seconds == kInfinity) return NoPartition(input);
  if (Allowed(input, solution)) return std::move(solution.partition);

  const double contexts = Contexts(input);
  if (input.fits && contexts > kMostContexts) {
    return absl::FailedPreconditionError(absl::StrCat(
        "plan: the best partition over ", input.workers(),
        " devices does not fit into memory, and the ways to place another are ",
        contexts, ", expected at most ", kMostContexts,
        "; use fewer devices or levels"));
  }
  solution = Recurrences(input, lattice, limit, input.fits != nullptr,
                         input.max_stages > 0)
                 .Solve();
  if (solution.partition.seconds == kInfinity) return NoPartition(input);
  return std::move(solution.partition);
}

}  // namespace

absl::StatusOr<Partition> PipedreamDp(const PartitionInput& input) {
  RETURN_IF_ERROR(CheckPartitionInput(input));
  if (input.stages != 0 || !input.replicas.empty()) {
    return Mismatch("partitioner pipedream_dp",
                    "a pinned number of stages or replicas", "given", "none",
                    "use fixed_stages");
  }
  return Best(input);
}

}  // namespace pipework
