#include "partitioner/algorithms/lattice.h"

#include <algorithm>
#include <numeric>

namespace pipework {

Lattice::Lattice(const PartitionInput& input)
    : input_(input),
      inside_(input.layers() + 1),
      ranks_(input.layers() + 1),
      seconds_(input.layers() + 1),
      weights_(input.layers() + 1) {
  for (int j = 1; j <= input.layers(); ++j) {
    if (input.predecessors.empty()) {
      inside_[j].resize(j);
      std::iota(inside_[j].begin(), inside_[j].end(), 0);
      seconds_[j] = seconds_[j - 1] + input.layer_seconds[j - 1];
      weights_[j] = weights_[j - 1] + input.weight_bytes[j - 1];
    } else {
      inside_[j].push_back(0);
      for (const int i : input.predecessors[j - 1]) inside_[j].push_back(i + 1);
      seconds_[j] = input.state_seconds[j - 1];
      weights_[j] = input.state_weight_bytes[j - 1];
    }
    for (const int i : inside_[j]) {
      ranks_[j] = std::max(ranks_[j], ranks_[i] + 1);
    }
  }
}

StageLoad Lattice::Load(int i, int j) const {
  StageLoad load;
  load.compute_seconds = Seconds(i, j);
  load.weight_bytes = weights_[j] > weights_[i] ? weights_[j] - weights_[i] : 0;
  load.input_bytes = CutBytes(i);
  load.output_bytes = CutBytes(j);
  return load;
}

std::vector<bool> Lattice::Holding(int start, int end) const {
  std::vector<bool> holding(end + 1, false);
  holding[start] = true;
  for (int j = start + 1; j <= end; ++j) {
    holding[j] = start == 0 || std::binary_search(inside_[j].begin(),
                                                  inside_[j].end(), start);
  }
  return holding;
}

PartitionInput Lattice::Coarse(int states) const {
  std::vector<int> way = {size()};
  while (way.back() > 0) {
    const std::vector<int>& inside = inside_[way.back()];
    way.push_back(
        *std::max_element(inside.begin(), inside.end(), [this](int a, int b) {
          return std::make_pair(seconds_[a], a) <
                 std::make_pair(seconds_[b], b);
        }));
  }
  way.pop_back();
  std::reverse(way.begin(), way.end());

  // Of those in one slice of the seconds, the one that the fewest bytes cross.
  std::vector<int> chosen;
  int last_slice = -1;
  for (const int j : way) {
    const double share =
        seconds_[size()] > 0 ? seconds_[j] / seconds_[size()] : 0;
    const int slice =
        j == size() ? states : static_cast<int>(share * (states - 1));
    if (slice != last_slice) {
      chosen.push_back(j);
    } else if (CutBytes(j) < CutBytes(chosen.back())) {
      chosen.back() = j;
    }
    last_slice = slice;
  }

  PartitionInput coarse;
  coarse.levels = input_.levels;
  coarse.cost_model = input_.cost_model;
  coarse.stages = input_.stages;
  coarse.replicas = input_.replicas;
  coarse.max_stages = input_.max_stages;
  coarse.straight = input_.straight;
  coarse.fewer_workers = input_.fewer_workers;
  for (size_t k = 0; k < chosen.size(); ++k) {
    coarse.state_seconds.push_back(seconds_[chosen[k]]);
    coarse.state_weight_bytes.push_back(weights_[chosen[k]]);
    coarse.cut_bytes.push_back(input_.cut_bytes[chosen[k] - 1]);
    coarse.predecessors.emplace_back(k);
    std::iota(coarse.predecessors[k].begin(), coarse.predecessors[k].end(), 0);
  }
  if (input_.fits) {
    coarse.fits = [&fits = input_.fits, chosen](int first, int last, int before,
                                                int replicas) {
      return fits(first > 0 ? chosen[first - 1] : 0, chosen[last] - 1, before,
                  replicas);
    };
  }
  return coarse;
}

}  // namespace pipework
