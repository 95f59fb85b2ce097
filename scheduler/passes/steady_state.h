// What a simulated run says of a long one: the window in which the pipe is
// full, and what devices and links do in it.
#ifndef PIPEWORK_SCHEDULER_PASSES_STEADY_STATE_H_
#define PIPEWORK_SCHEDULER_PASSES_STEADY_STATE_H_

#include <vector>

#include "scheduler/passes/simulate.h"
#include "scheduler/program.h"

namespace pipework {

struct SteadyState {
  double begin = 0;  // the window, on the clock of the timeline
  double end = 0;
  int64_t minibatches = 0;  // that leave the pipe in it
  double step_seconds = 0;  // between two of them
  double bubble = 0;        // share of the rows' time in which they are idle
  std::vector<double> row_utilisation;    // by row: share that it computes
  std::vector<double> stage_utilisation;  // by stage: mean of its rows
};

// A minibatch leaves with its last backward on stage 0 (an evaluation with its
// last forward on the last stage). The window ends with the last one that
// leaves while stage 0 still admits others, and holds the later half of those
// that left before, in whole rounds of all replicas and updates where there
// are enough. A run too short for that: all of it.
SteadyState SteadyStateOf(const Program& program, const Timeline& timeline);

// The same for the window from the end of minibatch `first` to that of `last`,
// counted from the segment's first one.
// REQUIRES: 0 <= first < last < segment.minibatches.
SteadyState SteadyStateBetween(const Program& program, const Timeline& timeline,
                               int64_t first, int64_t last);

// One direction of a component's link.
struct LinkLoad {
  int level = 0;
  int component = 0;
  bool up = false;                    // what the component sends
  double bytes_per_second = 0;        // that it carried
  double limit_bytes_per_second = 0;  // 0: free
  double busy = 0;                    // share of the time that it was taken
};

// Of the messages that were sent from `begin` to `end`, the busiest first.
std::vector<LinkLoad> LinkLoads(const Network& network,
                                const Timeline& timeline, double begin,
                                double end);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_STEADY_STATE_H_
