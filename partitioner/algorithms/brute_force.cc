#include "partitioner/algorithms/brute_force.h"

#include <algorithm>
#include <limits>
#include <random>

namespace pipework {
namespace testing {
namespace {

void Extend(const PartitionInput& input, int first, int workers,
            std::vector<StageCut>* stages,
            const std::function<void(const std::vector<StageCut>&)>& body) {
  if (first == input.layers()) {
    if (workers == 0) body(*stages);
    return;
  }
  for (int last = first; last < input.layers(); ++last) {
    for (int replicas = 1; replicas <= workers; ++replicas) {
      stages->push_back({first, last, replicas});
      Extend(input, last + 1, workers - replicas, stages, body);
      stages->pop_back();
    }
  }
}

}  // namespace

void ForEachPartition(
    const PartitionInput& input,
    const std::function<void(const std::vector<StageCut>&)>& body) {
  std::vector<StageCut> stages;
  Extend(input, 0, input.workers(), &stages, body);
}

double SecondsOf(const PartitionInput& input,
                 const std::vector<StageCut>& stages) {
  const Link& link = input.levels[0].link;
  double slowest = 0;
  int before = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageCut& stage = stages[s];
    if (input.fits &&
        !input.fits(stage.first, stage.last, before, stage.replicas)) {
      return std::numeric_limits<double>::infinity();
    }
    StageLoad load;
    for (int l = stage.first; l <= stage.last; ++l) {
      load.compute_seconds += input.layer_seconds[l];
      load.weight_bytes += input.weight_bytes[l];
    }
    if (s > 0) load.input_bytes = input.cut_bytes[stage.first - 1];
    if (s + 1 < stages.size()) {
      load.output_bytes = input.cut_bytes[stage.last];
      slowest = std::max(slowest, input.cost_model->CutSeconds(
                                      input.cut_bytes[stage.last], link));
    }
    slowest = std::max(
        slowest, input.cost_model->StageSeconds(load, stage.replicas, link));
    before += stage.replicas;
  }
  return slowest;
}

double BestSeconds(const PartitionInput& input) {
  double best = std::numeric_limits<double>::infinity();
  ForEachPartition(input, [&](const std::vector<StageCut>& stages) {
    if (input.stages > 0 && static_cast<int>(stages.size()) != input.stages) {
      return;
    }
    best = std::min(best, SecondsOf(input, stages));
  });
  return best;
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

}  // namespace testing
}  // namespace pipework
