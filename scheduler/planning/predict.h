// How fast a pipeline will run on given devices: its program on a clock.
#ifndef PIPEWORK_SCHEDULER_PLANNING_PREDICT_H_
#define PIPEWORK_SCHEDULER_PLANNING_PREDICT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/algorithms/partitioner.h"
#include "partitioner/profile.h"
#include "proto/graph.pb.h"
#include "scheduler/compile.h"
#include "scheduler/planning/devices.h"

namespace pipework {

// One job, as the planner sees it.
struct Workload {
  const v1::Graph* graph = nullptr;
  ChainProfile chain;  // for one unit
  double action_seconds = 0;
  Recipe recipe;
  bool unit_is_microbatch = false;
  int microbatches = 1;
  int accumulate = 1;
  int64_t minibatch_samples = 1;
  int in_flight = 0;  // 0: NOAM

  // Computing per minibatch of one layer, on one replica at full speed.
  double LayerSeconds(int layer) const;
  // What crosses the cut after `layer` per minibatch, there and back, halved:
  // cost models count it twice.
  double CutBytes(int layer) const;
  // What replicas synchronise of a layer, per minibatch.
  double WeightBytes(int layer) const;
};

// The shape of `cuts` for the scheduler.
PipelineShape ShapeOfCuts(const Workload& work,
                          const std::vector<StageCut>& cuts);

// Bytes over each edge of EdgesOf(ShapeOfCuts(...)), forward, of one unit.
std::vector<int64_t> EdgeBytes(const Workload& work,
                               const std::vector<StageCut>& cuts);

struct Prediction {
  double step_seconds = 0;  // between two minibatches that leave the pipe
  double bubble = 0;        // share of device time in which nothing is computed
};

// Compiles the recipe for `cuts` and simulates it on `seats` (by stage and
// replica), through the start-up into the steady state. Devices that share
// cores slow each other down.
absl::StatusOr<Prediction> Predict(const Workload& work,
                                   const std::vector<StageCut>& cuts,
                                   const DevicePool& pool,
                                   const std::vector<std::vector<int>>& seats);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_PREDICT_H_
