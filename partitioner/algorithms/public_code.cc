// The published optimizer of PipeDream (optimizer_graph_hierarchical), restated
// from its behaviour.
//
// States. The first is the first layer that reads no other layer. From a state
// the next ones are: with a layer outside that reads something inside, and all
// that this layer reads. So of several beginnings only the first is ever a
// state of its own.
//
// Costs, over levels k = 1..L of M_k machines joined by B_k bytes a second;
// states i and j with i inside j, "i..j" what j holds beyond i:
//
//   T(i..j)      seconds: forward and backward; beyond the first level A_{k-1}
//                of i..j on all its machines
//   W(i..j)      bytes of weights; D(i..j) those and all outputs
//   g            machines of the level below, 1 for the first
//   a(j)         bytes of the outputs of j's rim: its last layers, and what one
//                of these needs and something else reads, inside or outside
//   A(i..j, m)   seconds of the slowest stage at best, on m machines:
//
//   A(i..j, m) = min( (T(i..j) + 4 (m - 1) W(i..j) / (B m) / g) / m,
//                     min over i < s < j, 1 <= m' < m of
//                       max( A(i..s, m - m'),
//                            (T(s..j) + 4 (m' - 1) W(s..j) / (B m')) / m',
//                            with a ratio: 2 a(s) / (B m') / ratio,
//                                          2 a(j) / (B m') / ratio ) )
//
// where a(whole graph) counts as 0. With a memory limit a stage i..j must hold
// no more in ceil((M - m) / m') D(i..j), m machines used up to and with it. The
// weights of a stage that is alone on its level are divided by g and those of a
// split stage are not; that is how it is published. It also tries, on inner
// levels, some splits s that do not hold i, by the order in which it happens to
// number its states; those are no partitions and are left out here.
#include "partitioner/algorithms/public_code.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMostMachines = 4096;

using LayerSet = std::vector<bool>;

class Walk {
 public:
  explicit Walk(const LayerGraph& graph)
      : graph_(graph), readers_(graph.size()), before_(graph.size()) {
    for (int n = 0; n < graph.size(); ++n) {
      before_[n].assign(graph.size(), false);
      for (const int input : graph.nodes[n].inputs) {
        readers_[input].push_back(n);
        Add(before_[input], &before_[n]);
        before_[n][input] = true;
      }
    }
  }

  // Every state that can be reached; stops beyond `most`.
  std::vector<std::vector<int>> States(int most) const {
    LayerSet first(graph_.size(), false);
    first[0] = true;
    std::set<LayerSet> seen = {first};
    std::vector<LayerSet> queue = {first};
    for (size_t next = 0; next < queue.size(); ++next) {
      if (static_cast<int>(queue.size()) > most) break;
      const LayerSet state = queue[next];
      for (int n = 0; n < graph_.size(); ++n) {
        const std::vector<int>& inputs = graph_.nodes[n].inputs;
        if (state[n] || std::none_of(inputs.begin(), inputs.end(),
                                     [&state](int i) { return state[i]; })) {
          continue;
        }
        LayerSet wider = state;
        Add(before_[n], &wider);
        wider[n] = true;
        if (seen.insert(wider).second) queue.push_back(std::move(wider));
      }
    }
    std::vector<std::vector<int>> states;
    for (const LayerSet& state : queue) {
      states.emplace_back();
      for (int n = 0; n < graph_.size(); ++n) {
        if (state[n]) states.back().push_back(n);
      }
    }
    return states;
  }

  // a(state).
  double RimBytes(const State& state) const {
    LayerSet inside(graph_.size(), false);
    for (const int n : state.layers) inside[n] = true;
    LayerSet rim(graph_.size(), false);
    for (const int last : state.layers) {
      const std::vector<int>& readers = readers_[last];
      if (std::any_of(readers.begin(), readers.end(),
                      [&inside](int r) { return inside[r]; })) {
        continue;
      }
      rim[last] = true;
      for (int n = 0; n < last; ++n) {
        if (!before_[last][n]) continue;
        for (const int reader : readers_[n]) {
          if (reader != last && !before_[last][reader]) rim[n] = true;
        }
      }
    }
    double bytes = 0;
    for (int n = 0; n < graph_.size(); ++n) {
      if (rim[n]) {
        bytes += static_cast<double>(graph_.nodes[n].cost.output_bytes);
      }
    }
    return bytes;
  }

 private:
  static void Add(const LayerSet& from, LayerSet* to) {
    for (size_t n = 0; n < from.size(); ++n) {
      if (from[n]) (*to)[n] = true;
    }
  }

  const LayerGraph& graph_;
  std::vector<std::vector<int>> readers_;
  std::vector<LayerSet> before_;
};

// Starts count from 0 for nothing; start i is state i - 1.
class Recurrences {
 public:
  Recurrences(const StateGraph& states, std::vector<double> rim_bytes,
              std::vector<double> held_bytes, const PublicCodeOptions& options)
      : states_(states),
        rim_bytes_(std::move(rim_bytes)),
        held_bytes_(std::move(held_bytes)),
        options_(options),
        size_(states.size()),
        by_seconds_(size_) {
    std::vector<std::vector<int>> outside(size_);
    std::vector<int> order;
    for (int j = 0; j < size_; ++j) {
      seconds_.push_back(states.states[j].compute_seconds);
      order.push_back(j);
      for (const int s : states.states[j].predecessors) outside[s].push_back(j);
    }
    std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
      return seconds_[a] < seconds_[b];
    });
    for (const int s : order) {
      for (const int j : outside[s]) by_seconds_[j].push_back(s);
    }
  }

  Partition Solve() {
    for (size_t k = 0; k < options_.levels.size(); ++k) Fill(k);
    Partition partition;
    const int top = static_cast<int>(options_.levels.size()) - 1;
    const int m = options_.levels[top].components;
    partition.seconds = *Cell(top, 0, size_ - 1, m);
    if (partition.seconds == kInfinity) return partition;
    partition.stages = Stages(top, 0, size_ - 1, m);
    for (const StageCut& stage : partition.stages) {
      Expand(top, stage, &partition.workers);
    }
    return partition;
  }

 private:
  struct Split {
    int s = -1;  // -1: one stage
    int machines = 0;
    int left = 0;  // machines of all stages before
  };

  // What one cell needs of its level.
  struct At {
    size_t k;
    int i, j, machines;
  };

  void Fill(size_t k) {
    const int machines = options_.levels[k].components;
    const bool outermost = k + 1 == options_.levels.size();
    const int starts = outermost ? 1 : size_;
    const size_t rows =
        outermost ? size_ : static_cast<size_t>(size_) * (size_ + 1) / 2;
    tables_.emplace_back(rows * machines, kInfinity);
    SetFactors(k);
    for (int i = 0; i < starts; ++i) {
      // Which states hold start i, and may end or split what begins there.
      std::vector<int> ends;
      holds_.assign(size_, i == 0);
      for (int j = i; j < size_; ++j) {
        if (i > 0) {
          const std::vector<int>& inside = states_.states[j].predecessors;
          holds_[j] = std::binary_search(inside.begin(), inside.end(), i - 1);
        }
        if (holds_[j]) ends.push_back(j);
      }
      for (const int j : ends) FillCells({k, i, j, machines}, nullptr);
    }
  }

  // 1 / m, what a byte of weights costs on m machines, and what else is the
  // same for all cells of a level.
  void SetFactors(size_t k) {
    const int machines = options_.levels[k].components;
    machines_below_ = 1;
    for (size_t below = 0; below < k; ++below) {
      machines_below_ *= options_.levels[below].components;
    }
    cut_bytes_per_second_ = options_.levels[k].link.bytes_per_second *
                            options_.activation_compression_ratio;
    share_.assign(machines + 1, 0);
    sync_.assign(machines + 1, 0);
    for (int m = 1; m <= machines; ++m) {
      share_[m] = 1.0 / m;
      sync_[m] =
          4.0 * (m - 1) / m / m / options_.levels[k].link.bytes_per_second;
    }
  }

  // All m of A(i..j, m). `chosen`: tells how each m came about.
  void FillCells(const At& at, std::vector<Split>* chosen) {
    double* best = Cell(at.k, at.i, at.j, 1);
    const int machines = at.machines;
    const double within = at.k == 0 ? 1 : options_.levels[at.k - 1].components;
    const double compute = Compute(at.k, at.i, at.j);
    const double weights = Weights(at.i, at.j);
    for (int m = 1; m <= (options_.straight ? 1 : machines); ++m) {
      if (!Fits(at.i, at.j, machines - m, m)) continue;
      best[m - 1] = compute * share_[m] + weights * sync_[m] / within;
      if (chosen != nullptr) (*chosen)[m] = {-1, m, 0};
    }
    if (at.j == at.i) return;  // one step: no split, and no idle machines
    // Only idle machines ask for a cell of the same states.
    if (options_.use_fewer_machines) {
      for (int m = 2; m <= machines; ++m) {
        TrySplits(at, m, m, best, chosen);
      }
    } else {
      TrySplits(at, 2, machines, best, chosen);
    }
  }

  void TrySplits(const At& at, int first_m, int last_m, double* best,
                 std::vector<Split>* chosen) {
    if (options_.use_fewer_machines && best[first_m - 2] < best[first_m - 1]) {
      best[first_m - 1] = best[first_m - 2];
      if (chosen != nullptr) (*chosen)[first_m] = (*chosen)[first_m - 1];
    }
    const int most_right = options_.straight ? 1 : last_m - 1;
    for (int right = 1; right <= most_right; ++right) {
      for (int m = std::max(first_m, right + 1); m <= last_m; ++m) {
        TryWindow(at, m, right, &best[m - 1],
                  chosen == nullptr ? nullptr : &(*chosen)[m]);
      }
    }
  }

  // All s for one m and m'. No stage is faster than its computing shared by all
  // its machines, so only those s can be better than `best` that leave neither
  // side more than `best` times its machines: from the even split outwards, as
  // far as that goes.
  void TryWindow(const At& at, int m, int right, double* best, Split* chosen) {
    const std::vector<int>& inside = by_seconds_[at.j];
    const double begin = at.i > 0 ? seconds_[at.i - 1] : 0;
    const double end = seconds_[at.j];
    const double even = begin + (end - begin) * (m - right) / m;
    const auto middle = std::lower_bound(
        inside.begin(), inside.end(), even,
        [this](int s, double value) { return seconds_[s] < value; });
    const double slack = 1e-12 * end;
    const double left_share = machines_below_ * (m - right);
    for (auto s = middle; s != inside.end(); ++s) {
      if (seconds_[*s] - begin > *best * left_share + slack) break;
      TrySplit(at, *s, m, right, best, chosen);
    }
    const double right_share = machines_below_ * right;
    for (auto s = middle; s != inside.begin();) {
      --s;
      if (end - seconds_[*s] > *best * right_share + slack) break;
      TrySplit(at, *s, m, right, best, chosen);
    }
  }

  void TrySplit(const At& at, int s, int m, int right, double* best,
                Split* chosen) {
    if (s < at.i || !holds_[s]) return;
    const double left = *Cell(at.k, at.i, s, m - right);
    if (!(left < *best)) return;
    double seconds = std::max(left, Compute(at.k, s + 1, at.j) * share_[right] +
                                        Weights(s + 1, at.j) * sync_[right]);
    if (options_.activation_compression_ratio > 0) {
      const double out = at.j + 1 < size_ ? rim_bytes_[at.j] : 0;
      seconds = std::max(seconds, 2 * std::max(rim_bytes_[s], out) *
                                      share_[right] / cut_bytes_per_second_);
    }
    if (!(seconds < *best)) return;
    if (!Fits(s + 1, at.j, at.machines - m, right)) return;
    *best = seconds;
    if (chosen != nullptr) *chosen = {s, right, m - right};
  }

  // The stages of A(i..j, m), in order.
  std::vector<StageCut> Stages(int k, int i, int j, int m) {
    SetFactors(k);
    holds_.assign(size_, false);
    for (int s = i; s < size_; ++s) {
      const std::vector<int>& inside = states_.states[s].predecessors;
      holds_[s] =
          i == 0 || std::binary_search(inside.begin(), inside.end(), i - 1);
    }
    std::vector<StageCut> stages;
    while (true) {
      std::vector<Split> chosen(options_.levels[k].components + 1);
      double* cells = Cell(k, i, j, 1);
      std::fill(cells, cells + options_.levels[k].components, kInfinity);
      FillCells({static_cast<size_t>(k), i, j, options_.levels[k].components},
                &chosen);
      const Split split = chosen[m];
      stages.push_back({split.s < 0 ? i : split.s + 1, j, split.machines});
      if (split.s < 0) break;
      m = split.left;
      j = split.s;
    }
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  // A stage of level k is, on each of its machines, the plan of level k - 1.
  void Expand(int k, const StageCut& stage, std::vector<StageCut>* out) {
    if (k == 0) {
      out->push_back(stage);
      return;
    }
    const int m = options_.levels[k - 1].components;
    for (StageCut inner : Stages(k - 1, stage.first, stage.last, m)) {
      inner.replicas *= stage.replicas;
      Expand(k - 1, inner, out);
    }
  }

  double* Cell(size_t k, int i, int j, int m) {
    // Rows of j = i .. size - 1.
    const size_t start = i;
    const size_t row = start * size_ - start * (start + 1) / 2 + j;
    return &tables_[k][row * options_.levels[k].components + m - 1];
  }

  double Compute(size_t k, int i, int j) {
    if (k > 0) return *Cell(k - 1, i, j, options_.levels[k - 1].components);
    return seconds_[j] - (i > 0 ? seconds_[i - 1] : 0);
  }

  double Weights(int i, int j) const {
    return states_.states[j].parameter_bytes -
           (i > 0 ? states_.states[i - 1].parameter_bytes : 0);
  }

  bool Fits(int i, int j, int later, int m) const {
    if (options_.memory_limit_bytes <= 0) return true;
    const double held = held_bytes_[j] - (i > 0 ? held_bytes_[i - 1] : 0);
    return (later + m - 1) / m * held <= options_.memory_limit_bytes;
  }

  const StateGraph& states_;
  const std::vector<double> rim_bytes_;
  const std::vector<double> held_bytes_;  // weights and outputs, of each state
  const PublicCodeOptions& options_;
  const int size_;
  std::vector<double> seconds_;               // of each state
  std::vector<std::vector<int>> by_seconds_;  // its predecessors, so sorted
  std::vector<std::vector<double>> tables_;
  // Of the level in work.
  double machines_below_ = 1;
  double cut_bytes_per_second_ = 0;
  std::vector<double> share_, sync_;
  std::vector<char> holds_;  // of the start in work
};

double DataParallelSeconds(const State& all, const PublicCodeOptions& options) {
  double seconds = all.compute_seconds;
  double within = 1;
  for (const Level& level : options.levels) {
    const double m = level.components;
    const double sync = 4 * (m - 1) * all.parameter_bytes /
                        (level.link.bytes_per_second * m) / within;
    seconds = (seconds + sync) / m;
    within = m;
  }
  return seconds;
}

}  // namespace

absl::Status PublicCodeOptions::Validate() const {
  if (levels.empty()) {
    return Mismatch("public_code", "the number of levels", "0", "1 or more");
  }
  for (const Level& level : levels) {
    if (level.components < 1 || level.components > kMostMachines) {
      return Mismatch("public_code", "the machines of a level",
                      absl::StrCat(level.components),
                      absl::StrCat("1 to ", kMostMachines));
    }
    const double bandwidth = level.link.bytes_per_second;
    if (!(bandwidth > 0) || !std::isfinite(bandwidth)) {
      return Mismatch("public_code", "the bandwidth of a level",
                      absl::StrCat(bandwidth, " bytes per second"),
                      "a number above 0");
    }
  }
  for (const double value :
       {memory_limit_bytes, activation_compression_ratio}) {
    if (!(value >= 0) || !std::isfinite(value)) {
      return Mismatch("public_code", "a memory limit or compression ratio",
                      absl::StrCat(value), "a number from 0");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PublicCodePlan> PublicCode(const LayerGraph& graph,
                                          const PublicCodeOptions& options) {
  RETURN_IF_ERROR(options.Validate());
  if (graph.size() == 0) {
    return Mismatch("public_code", "the number of layers", "0", "1 or more");
  }
  const Walk walk(graph);
  const std::vector<std::vector<int>> sets = walk.States(options.most_states);
  if (static_cast<int>(sets.size()) > options.most_states) {
    return absl::FailedPreconditionError(MismatchText(
        "public_code", "the number of states",
        absl::StrCat("over ", options.most_states),
        absl::StrCat("at most ", options.most_states),
        "use the cost model pipework or paper, which compress branches"));
  }
  PublicCodePlan plan;
  plan.states = StatesOf(graph, sets);
  const State& all = plan.states.states.back();
  if (static_cast<int>(all.layers.size()) != graph.size()) {
    return Mismatch("public_code", "the number of layers that edges join",
                    absl::StrCat(all.layers.size()),
                    absl::StrCat(graph.size(), ", all of the graph"),
                    "give each part a plan of its own");
  }
  std::vector<double> rim_bytes, held_bytes;
  for (const State& state : plan.states.states) {
    rim_bytes.push_back(walk.RimBytes(state));
    double held = state.parameter_bytes;
    for (const int n : state.layers) {
      held += static_cast<double>(graph.nodes[n].cost.output_bytes);
    }
    held_bytes.push_back(held);
  }
  plan.data_parallel_seconds = DataParallelSeconds(all, options);
  plan.partition = Recurrences(plan.states, std::move(rim_bytes),
                               std::move(held_bytes), options)
                       .Solve();
  if (plan.partition.seconds == kInfinity) {
    return absl::FailedPreconditionError(
        "public_code: no partition keeps to the memory limit and uses all "
        "machines; raise the limit, or allow fewer machines");
  }
  return plan;
}

}  // namespace pipework
