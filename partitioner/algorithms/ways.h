// How many workers the stages of a fast enough pipeline can take.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_WAYS_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_WAYS_H_

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "partitioner/algorithms/lattice.h"

namespace pipework {

// All pipelines of one level that turn state `start` into state `end` on
// `workers`.
struct Pipelines {
  int start = 0;
  int end = 0;
  int workers = 1;
  int widest = 1;             // most replicas of a stage
  int stages = 0;             // 0: as many as are wanted
  bool idle = false;          // workers may stand idle in front
  std::vector<int> replicas;  // pinned, of each stage; empty: free
  double share = 1;  // of Lattice::Seconds, which m replicas take m-th of
  // Of the stage from state `from` to state `to` on m replicas.
  std::function<double(int from, int to, int m)> stage_seconds;
  std::function<double(int state)> cut_seconds;
  // Whether it fits behind `before` workers; empty: always.
  std::function<bool(int from, int to, int m, int before)> fits;
};

// Numbers of workers, both ends included.
struct WorkerRange {
  int least = std::numeric_limits<int>::max() / 4;
  int most = -1;

  bool empty() const { return least > most; }
  int size() const { return empty() ? 0 : most - least + 1; }
};

// A stage from one state to another.
struct Way {
  int from = 0;
  int to = 0;
  double cut = 0;        // seconds before it
  WorkerRange replicas;  // with fewer or more it is slower than the limit
};

// Cost: R (K + 1) for R ways and K stages, and R M calls of stage_seconds.
class Ways {
 public:
  // `lattice` outlives this.
  Ways(const Lattice& lattice, Pipelines pipelines);

  size_t size() const { return ways_.size(); }

  // What some pipeline takes, which is close to the best where no number of
  // workers between two good ones is a bad one. Infinite: none was found.
  double QuickSeconds(double limit) const;

  // Keeps what a pipeline of at most `limit` seconds can have. No such pipeline
  // is lost.
  void KeepBelow(double limit);

  // After KeepBelow: the ways to `state`, by ascending `from`.
  const Way* begin(int state) const { return ways_.data() + first_[state]; }
  const Way* end(int state) const { return ways_.data() + first_[state + 1]; }
  // After KeepBelow: workers used up to `state`, idle ones too. In a pipeline
  // of pinned length by the number of `stages` up to it, else that is 0.
  WorkerRange Used(int state, int stages) const;

 private:
  struct Reach;  // the workers before and after each state

  int Layers() const { return pipelines_.stages + 1; }
  Reach ReachOf(const std::vector<WorkerRange>& replicas) const;
  WorkerRange Replicas(WorkerRange of_way, int stage) const;
  // The seconds of a pipeline of stages that take at most `x`, or infinity.
  double Construct(double x, const std::vector<WorkerRange>& replicas,
                   const Reach& reach) const;

  const Lattice& lattice_;
  const Pipelines pipelines_;
  std::vector<Way> ways_;  // by `to`, then by `from`
  std::vector<size_t> first_;
  std::vector<WorkerRange> used_;
};

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_WAYS_H_
