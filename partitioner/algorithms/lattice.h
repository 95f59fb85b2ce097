// The states of an input as the partitioners number them.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_LATTICE_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_LATTICE_H_

#include <vector>

#include "partitioner/algorithms/partitioner.h"

namespace pipework {

// State 0 is nothing, state j > 0 the input's state (or layer) j - 1, and a
// stage i..j is what j holds beyond i. A state comes after all that lie inside.
class Lattice {
 public:
  // REQUIRES: CheckPartitionInput(input) is OK; `input` outlives this.
  explicit Lattice(const PartitionInput& input);

  // The last state, which holds everything.
  int size() const { return static_cast<int>(inside_.size()) - 1; }
  // All states strictly inside j, ascending from 0.
  const std::vector<int>& Inside(int j) const { return inside_[j]; }
  // Layers on the longest way from nothing to j.
  int Rank(int j) const { return ranks_[j]; }
  double CutBytes(int j) const {
    return j > 0 && j < size() ? input_.cut_bytes[j - 1] : 0;
  }
  double Seconds(int i, int j) const {
    return seconds_[j] > seconds_[i] ? seconds_[j] - seconds_[i] : 0;
  }
  // Of stage i..j.
  StageLoad Load(int i, int j) const;
  StageCut Cut(int i, int j, int replicas) const {
    return {i, j - 1, replicas};
  }
  // For each state up to `end` whether it is `start` or holds it.
  std::vector<bool> Holding(int start, int end) const;

  // The same input with about `states` of its states, on one way from nothing
  // to everything, spread evenly over its seconds. What the best partition of
  // it takes, the best of the whole takes at most. `fits` of it refers to
  // `input`.
  PartitionInput Coarse(int states) const;

 private:
  const PartitionInput& input_;
  std::vector<std::vector<int>> inside_;
  std::vector<int> ranks_;
  std::vector<double> seconds_;  // sums over all that a state holds
  std::vector<double> weights_;
};

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_LATTICE_H_
