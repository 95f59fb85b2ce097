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
  // Units of a round of each replica, by listed stage, or empty.
  std::vector<std::vector<int>> shares;
  // The layers in the order in which the listed stages take them; empty: the
  // order of the graph.
  std::vector<int> order;
  int in_flight = 0;           // 0: NOAM
  bool any_in_flight = false;  // the planner chooses
  int max_stages = 0;          // 0: any number
  bool straight = false;       // one replica of each stage
};

// What is asked for beside the spec.
struct PinLimits {
  int max_stages = 0;
  bool straight = false;
};

// Stages are listed with their layers, or all of them without: then the planner
// cuts. A stage may hold parts of several branches: `order` then says how the
// layers follow each other.
// InvalidArgument, both sides named: stages that do not hold every layer once,
// or that read from later ones; unknown layers or devices, a device twice,
// numbers that contradict each other or `limits`.
// FailedPrecondition: more stages than layers.
absl::StatusOr<Pins> ReadPins(const v1::PipelineSpec& pipeline,
                              const v1::Graph& graph, const DevicePool& pool,
                              const PinLimits& limits = {});

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_PINS_H_
