// One job, as the planner sees it: what a unit costs on each layer.
#ifndef PIPEWORK_SCHEDULER_PLANNING_WORKLOAD_H_
#define PIPEWORK_SCHEDULER_PLANNING_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "partitioner/algorithms/partitioner.h"
#include "partitioner/profile.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "proto/profile.pb.h"
#include "scheduler/compile.h"
#include "scheduler/planning/devices.h"

namespace pipework {

// How fast devices of one kind and speed run each layer.
struct Pace {
  std::vector<double> compute_seconds;  // forward and backward of a unit
  std::vector<double> update_seconds;
};

struct Workload {
  const v1::Graph* graph = nullptr;
  // For one unit, where the first stage runs one in a round.
  ChainProfile chain;
  double unit_scale = 1;  // its samples over those of the profile
  double action_seconds = 0;
  Recipe recipe;
  bool unit_is_microbatch = false;
  int microbatches = 1;  // for each unit of a round of the first stage
  int accumulate = 1;
  int64_t minibatch_samples = 1;
  int in_flight = 0;  // 0: NOAM
  // Where devices differ: their paces, and the pace of each device of the pool.
  // Empty: every device runs as `chain` says.
  std::vector<Pace> paces;
  std::vector<int> pace_of;

  bool mixed() const { return paces.size() > 1; }

  // Parts that a unit of `chain` is split in for a first stage that runs
  // `round` units in a round: each of its pipelines has microbatches of its
  // own. 1 where units are minibatches.
  int PartsOf(int round) const { return unit_is_microbatch ? round : 1; }
  // Units of a minibatch then.
  int UnitsOf(int round) const { return microbatches * PartsOf(round); }

  // Computing per minibatch of one layer, on one replica at full speed.
  double LayerSeconds(int layer) const;
  // The same on a device of the pool.
  double LayerSeconds(int layer, int device) const;
  // What the computing of layers first..last on `device` is multiplied with,
  // against `chain`.
  double ScaleOf(int first, int last, int device) const;
  // Computing per minibatch of layers first..last, at full speed.
  double ComputeSeconds(int first, int last) const;
  // What crosses the cut after `layer` per minibatch, there and back, halved:
  // cost models count it twice.
  double CutBytes(int layer) const;
  // What replicas synchronise of a layer, per minibatch.
  double WeightBytes(int layer) const;
};

// What a job's spec asks of a workload.
struct WorkloadRequest {
  Recipe recipe;
  int microbatches = 1;
  int64_t minibatch = 1;
  int accumulate = 1;
  int in_flight = 0;
};

WorkloadRequest RequestOf(const v1::JobSpec& spec, int in_flight);

// The job on `graph` with the times of `profile`, and of `others` for devices
// of their kinds; devices of further kinds are scaled by their relative speed.
// Borrows `graph`.
// InvalidArgument: a minibatch below 1, a profile of another graph, a pair of
// schedule and weights that makes no sense.
absl::StatusOr<Workload> MakeWorkload(const WorkloadRequest& request,
                                      const v1::Graph& graph,
                                      const v1::Profile& profile,
                                      absl::Span<const v1::Profile> others,
                                      const DevicePool& pool);

// A way to run the job.
struct Layout {
  std::vector<StageCut> cuts;
  // Devices by stage and replica.
  std::vector<std::vector<int>> seats;
  // Units of a round that each replica runs, by stage; a stage without an
  // entry, or with an empty one: one each.
  std::vector<std::vector<int>> shares;
  int in_flight = 0;  // 0: NOAM

  int devices() const;
};

// The levels of the pool where they are even, else one level of all devices.
std::vector<Level> LevelsOf(const DevicePool& pool);

// The shape of `cuts` for the scheduler, with the workload's depth.
PipelineShape ShapeOfCuts(const Workload& work,
                          const std::vector<StageCut>& cuts);
PipelineShape ShapeOfLayout(const Workload& work, const Layout& layout);

// Seconds that stage s computes per minibatch: of its slowest replica, in
// proportion to the units that it runs.
double StageComputeSeconds(const Workload& work, const Layout& layout,
                           size_t stage);

// Bytes over each edge of EdgesOf(ShapeOfCuts(...)), forward, of one unit of
// the workload's chain.
std::vector<int64_t> EdgeBytes(const Workload& work,
                               const std::vector<StageCut>& cuts);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_WORKLOAD_H_
