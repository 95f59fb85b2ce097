// What of a candidate is slowest, by the cost model.
//
// `pipework` takes the slowest link between two stages for all of their
// messages, though replicas that sit together use a faster one: what it says is
// an upper bound, and the predicted step, which knows each pair, the better
// word. Other models keep theirs: it is what they are asked for.
#ifndef PIPEWORK_SCHEDULER_PLANNING_BOTTLENECK_H_
#define PIPEWORK_SCHEDULER_PLANNING_BOTTLENECK_H_

#include <string>
#include <vector>

#include "scheduler/planning/candidates.h"

namespace pipework {

// Seconds per minibatch of each stage, sharing of cores counted; with
// `pipework` no more than the predicted step.
std::vector<double> StageSeconds(const Candidate& candidate);

// The slowest stage, link or group of cores.
struct Bottleneck {
  double seconds = 0;
  // "stage 2", "n1-n2", "all-reduce of stage 0", "cores of n1".
  std::string where;
  int stage = -1;  // where it is one
};
// Where `pipework` says more than the predicted step: the stage that computes
// most of the time.
Bottleneck BottleneckOf(const Candidate& candidate);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_BOTTLENECK_H_
