#include "partitioner/algorithms/brute_force.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

namespace pipework {
namespace testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Whether a stage may begin after state `from` (-1: nothing) and end with `to`.
bool Follows(const PartitionInput& input, int from, int to) {
  if (from < 0 || input.predecessors.empty()) return from < to;
  const std::vector<int>& inside = input.predecessors[to];
  return std::find(inside.begin(), inside.end(), from) != inside.end();
}

StageLoad LoadOf(const PartitionInput& input, int first, int last) {
  StageLoad load;
  if (input.predecessors.empty()) {
    for (int l = first; l <= last; ++l) {
      load.compute_seconds += input.layer_seconds[l];
      load.weight_bytes += input.weight_bytes[l];
    }
  } else {
    load.compute_seconds = input.state_seconds[last];
    load.weight_bytes = input.state_weight_bytes[last];
    if (first > 0) {
      load.compute_seconds -= input.state_seconds[first - 1];
      load.weight_bytes -= input.state_weight_bytes[first - 1];
    }
  }
  if (first > 0) load.input_bytes = input.cut_bytes[first - 1];
  if (last + 1 < input.layers()) load.output_bytes = input.cut_bytes[last];
  return load;
}

void Extend(const PartitionInput& input, int from, int workers,
            std::vector<StageCut>* stages,
            const std::function<void(const std::vector<StageCut>&)>& body) {
  if (from == input.layers() - 1) {
    if (workers == 0 || input.fewer_workers) body(*stages);
    return;
  }
  for (int last = from + 1; last < input.layers(); ++last) {
    if (!Follows(input, from, last)) continue;
    for (int replicas = 1; replicas <= (input.straight ? 1 : workers);
         ++replicas) {
      if (replicas > workers) break;
      stages->push_back({from + 1, last, replicas});
      Extend(input, last, workers - replicas, stages, body);
      stages->pop_back();
    }
  }
}

// All pipelines of a level, inside a stage of the outer ones.
class Nested {
 public:
  explicit Nested(const PartitionInput& input) : input_(input) {}

  // Layers of states from -> to on all components of level k, with at most `q`
  // stages of single workers; `before` workers lie before, and each worker
  // stands for `times`.
  double Best(int k, int from, int to, int q, int before, int times) {
    double best = kInfinity;
    const int all = input_.levels[k].components;
    for (int idle = 0; idle < (input_.fewer_workers ? all : 1); ++idle) {
      Walk({k, to, before, times}, from, all - idle, idle, q, 0, &best);
    }
    return best;
  }

 private:
  struct Where {
    int k, to, before, times;
  };

  void Walk(const Where& where, int from, int left, int passed, int q,
            double slowest, double* best) {
    if (slowest >= *best) return;
    if (from == where.to) {
      if (left == 0) *best = slowest;
      return;
    }
    const Level& level = input_.levels[where.k];
    int width = 1;
    for (int k = 0; k < where.k; ++k) width *= input_.levels[k].components;
    for (int last = from + 1; last <= where.to; ++last) {
      if (!Follows(input_, from, last)) continue;
      if (last != where.to && !Follows(input_, last, where.to)) continue;
      for (int m = 1; m <= (input_.straight ? std::min(1, left) : left); ++m) {
        const int before = where.before + where.times * passed * width;
        const int times = where.times * m;
        // Nobody counts: one try is enough, at whatever the inner level uses.
        const bool counted = where.k > 0 && input_.max_stages > 0;
        for (int used = 1; used <= (counted ? q : std::min(1, q)); ++used) {
          StageLoad load = LoadOf(input_, from + 1, last);
          if (where.k > 0) {
            load.inner_components = input_.levels[where.k - 1].components;
            load.compute_seconds =
                Best(where.k - 1, from, last, input_.max_stages == 0 ? q : used,
                     before, times);
            if (load.compute_seconds == kInfinity) continue;
          } else if (input_.fits &&
                     !input_.fits(from + 1, last, before, times)) {
            continue;
          }
          double seconds = input_.cost_model->StageSeconds(load, m, level.link);
          if (last != where.to) {
            seconds =
                std::max(seconds, input_.cost_model->CutSeconds(
                                      input_.cut_bytes[last], level.link));
          }
          Walk(where, last, left - m, passed + m, q - used,
               std::max(slowest, seconds), best);
        }
      }
    }
  }

  const PartitionInput& input_;
};

}  // namespace

void ForEachPartition(
    const PartitionInput& input,
    const std::function<void(const std::vector<StageCut>&)>& body) {
  std::vector<StageCut> stages;
  Extend(input, -1, input.workers(), &stages, body);
}

double SecondsOf(const PartitionInput& input,
                 const std::vector<StageCut>& stages) {
  const Link& link = input.levels[0].link;
  double slowest = 0;
  int before = input.workers();
  for (const StageCut& stage : stages) before -= stage.replicas;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageCut& stage = stages[s];
    if (input.fits &&
        !input.fits(stage.first, stage.last, before, stage.replicas)) {
      return kInfinity;
    }
    if (s + 1 < stages.size()) {
      slowest = std::max(slowest, input.cost_model->CutSeconds(
                                      input.cut_bytes[stage.last], link));
    }
    slowest = std::max(slowest, input.cost_model->StageSeconds(
                                    LoadOf(input, stage.first, stage.last),
                                    stage.replicas, link));
    before += stage.replicas;
  }
  return slowest;
}

double BestSeconds(const PartitionInput& input) {
  if (input.levels.size() > 1) {
    const int q = input.max_stages > 0 ? input.max_stages
                                       : std::numeric_limits<int>::max() / 2;
    return Nested(input).Best(static_cast<int>(input.levels.size()) - 1, -1,
                              input.layers() - 1, q, 0, 1);
  }
  double best = kInfinity;
  ForEachPartition(input, [&](const std::vector<StageCut>& stages) {
    const int count = static_cast<int>(stages.size());
    if (input.stages > 0 && count != input.stages) return;
    if (input.max_stages > 0 && count > input.max_stages) return;
    best = std::min(best, SecondsOf(input, stages));
  });
  return best;
}

namespace {

struct Cell {
  double seconds = kInfinity;
  int stages = 0;
  int s = -1;
  int m = 0;
};

// A^k(i, j, m) by level, first layer, last layer, m.
using Cells = std::vector<std::vector<std::vector<std::vector<Cell>>>>;

void PlainStages(const PartitionInput& input, const Cells& A, int k, int i,
                 int j, int m, int times, bool expand,
                 std::vector<StageCut>* out) {
  const Cell& cell = A[k][i][j][m];
  const bool one = cell.s < i;
  if (!one) {
    PlainStages(input, A, k, i, cell.s, m - cell.m, times, expand, out);
  }
  const int first = one ? i : cell.s + 1;
  if (k == 0 || !expand) {
    out->push_back({first, j, cell.m * times});
    return;
  }
  PlainStages(input, A, k - 1, first, j, input.levels[k - 1].components,
              cell.m * times, expand, out);
}

}  // namespace

Partition PlainRecurrences(const PartitionInput& input) {
  const int N = input.layers();
  Cells A;
  for (size_t k = 0; k < input.levels.size(); ++k) {
    const Level& level = input.levels[k];
    A.emplace_back(N, std::vector<std::vector<Cell>>(
                          N, std::vector<Cell>(level.components + 1)));
    const auto T = [&](int i, int j, int m) {
      StageLoad load = LoadOf(input, i, j);
      if (k > 0) {
        load.inner_components = input.levels[k - 1].components;
        load.compute_seconds =
            A[k - 1][i][j][input.levels[k - 1].components].seconds;
      }
      return input.cost_model->StageSeconds(load, m, level.link);
    };
    for (int i = 0; i < N; ++i) {
      for (int j = i; j < N; ++j) {
        if (!Follows(input, i - 1, j)) continue;
        for (int m = 1; m <= level.components; ++m) {
          Cell best = {T(i, j, m), 1, -1, m};
          for (int s = i; s < j; ++s) {
            if (!Follows(input, i - 1, s) || !Follows(input, s, j)) continue;
            const double cut =
                input.cost_model->CutSeconds(input.cut_bytes[s], level.link);
            for (int right = 1; right < m; ++right) {
              const Cell& left = A[k][i][s][m - right];
              const Cell next = {
                  std::max({left.seconds, cut, T(s + 1, j, right)}),
                  left.stages + 1, s, right};
              if (std::tie(next.seconds, next.stages) <
                  std::tie(best.seconds, best.stages)) {
                best = next;
              }
            }
          }
          A[k][i][j][m] = best;
        }
      }
    }
  }
  const int top = static_cast<int>(input.levels.size()) - 1;
  const int m = input.levels[top].components;
  Partition partition;
  partition.seconds = A[top][0][N - 1][m].seconds;
  PlainStages(input, A, top, 0, N - 1, m, 1, false, &partition.stages);
  PlainStages(input, A, top, 0, N - 1, m, 1, true, &partition.workers);
  return partition;
}

PartitionInput RandomInput(uint32_t seed, int layers, int workers,
                           const CostModel* model) {
  std::mt19937 random(seed);
  // Not std::uniform_int_distribution: its numbers differ by library.
  const auto below = [&random](uint32_t end) { return random() % end; };
  PartitionInput input;
  for (int l = 0; l < layers; ++l) {
    input.layer_seconds.push_back(below(9));
    input.weight_bytes.push_back(below(30));
    input.cut_bytes.push_back(below(20));
  }
  input.levels = {{workers, {1.0 + below(20), 0.25 * below(3)}}};
  input.cost_model = model;
  return input;
}

PartitionInput RandomGraphInput(uint32_t seed, int layers, int workers,
                                const CostModel* model) {
  const PartitionInput costs = RandomInput(seed, layers, workers, model);
  std::mt19937 random(seed + 1000);
  std::vector<uint32_t> reads(layers, 0);
  for (int l = 1; l < layers; ++l) {
    for (int from = 0; from < l; ++from) {
      if (random() % (2 + seed % 3) == 0) reads[l] |= 1u << from;
    }
  }
  std::vector<uint32_t> sets;
  for (uint32_t set = 1; set < (1u << layers); ++set) {
    bool state = true;
    for (int l = 0; l < layers; ++l) {
      if ((set >> l & 1) != 0 && (reads[l] & ~set) != 0) state = false;
    }
    if (state) sets.push_back(set);
  }
  PartitionInput input;
  input.levels = costs.levels;
  input.cost_model = model;
  // A subset is the smaller number, so states come after what lies inside.
  for (size_t j = 0; j < sets.size(); ++j) {
    double seconds = 0;
    double weights = 0;
    double cut = 0;
    for (int l = 0; l < layers; ++l) {
      if ((sets[j] >> l & 1) == 0) continue;
      seconds += costs.layer_seconds[l];
      weights += costs.weight_bytes[l];
      bool alive = false;
      for (int reader = 0; reader < layers; ++reader) {
        alive |= (sets[j] >> reader & 1) == 0 && (reads[reader] >> l & 1) != 0;
      }
      if (alive) cut += costs.cut_bytes[l];
    }
    input.state_seconds.push_back(seconds);
    input.state_weight_bytes.push_back(weights);
    input.cut_bytes.push_back(cut);
    input.predecessors.emplace_back();
    for (size_t i = 0; i < j; ++i) {
      if ((sets[i] & ~sets[j]) == 0) input.predecessors[j].push_back(i);
    }
  }
  return input;
}

FitsFn RandomFits(uint32_t seed) {
  return [seed](int first, int last, int before, int replicas) {
    const uint32_t mixed =
        (seed + 7919u * first + 104729u * last) * 2654435761u;
    return static_cast<int>(mixed >> 28) + before + 2 * replicas >= 6;
  };
}

}  // namespace testing
}  // namespace pipework
