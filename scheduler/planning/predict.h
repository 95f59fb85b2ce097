// How fast a pipeline will run on given devices: its program on a clock.
#ifndef PIPEWORK_SCHEDULER_PLANNING_PREDICT_H_
#define PIPEWORK_SCHEDULER_PLANNING_PREDICT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/planning/devices.h"
#include "scheduler/planning/workload.h"
#include "scheduler/timeline.h"

namespace pipework {

struct Prediction {
  double step_seconds = 0;  // between two minibatches that leave the pipe
  double bubble = 0;        // share of device time in which nothing is computed
  // By stage: share of its devices' time in which they compute in steady state,
  // and most updates between reading weights and applying their gradient.
  std::vector<double> utilisation;
  std::vector<double> staleness;
};

// Compiles the recipe for `layout` and simulates it, through the start-up into
// the steady state. Devices that share cores slow each other down. No step is
// shorter than LeastSeconds, or than the busiest link is taken for
// (link_loads.h).
absl::StatusOr<Prediction> Predict(const Workload& work, const DevicePool& pool,
                                   const Layout& layout);

// What the devices do, and the window to look at: some steps of the steady
// state.
struct PlannedTimeline {
  Lanes lanes;
  TimeWindow window;
};
absl::StatusOr<PlannedTimeline> TimelineOf(const Workload& work,
                                           const DevicePool& pool,
                                           const Layout& layout);

// Seconds that no schedule can beat: of the stage that computes longest with
// its update and all-reduce, or of the cores that have most to do.
double LeastSeconds(const Workload& work, const DevicePool& pool,
                    const Layout& layout);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_PREDICT_H_
