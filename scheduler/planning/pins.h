// What a spec pins of its pipeline.
#ifndef PIPEWORK_SCHEDULER_PLANNING_PINS_H_
#define PIPEWORK_SCHEDULER_PLANNING_PINS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/algorithms/partitioner.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "scheduler/planning/devices.h"

namespace pipework {

struct Pins {
  int stage_count = 0;         // 0: automatic
  std::vector<StageCut> cuts;  // the stages themselves, or empty
  std::vector<int> replicas;   // of each listed stage; empty: automatic
  // By listed stage: devices, one for each replica, or empty.
  std::vector<std::vector<int>> devices;
  int in_flight = 0;  // 0: NOAM
};

// Stages are listed with their layers, or all of them without: then the planner
// cuts.
// InvalidArgument: stages that are not consecutive ranges of the whole graph,
// unknown layers or devices, a device twice, numbers that contradict.
// FailedPrecondition: more stages than layers.
absl::StatusOr<Pins> ReadPins(const v1::PipelineSpec& pipeline,
                              const v1::Graph& graph, const DevicePool& pool);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_PINS_H_
