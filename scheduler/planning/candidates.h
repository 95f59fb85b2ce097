// Ways to cut and place one job, each judged by simulation.
#ifndef PIPEWORK_SCHEDULER_PLANNING_CANDIDATES_H_
#define PIPEWORK_SCHEDULER_PLANNING_CANDIDATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/algorithms/partitioner.h"
#include "proto/job.pb.h"
#include "scheduler/planning/devices.h"
#include "scheduler/planning/pins.h"
#include "scheduler/planning/predict.h"

namespace pipework {

struct Candidate {
  std::vector<StageCut> cuts;
  std::vector<std::vector<int>> seats;  // devices by stage and replica
  Prediction prediction;

  int devices() const;
};

// What all candidates of a job have in common. Borrows all of it.
struct Planner {
  const Workload& work;
  const DevicePool& pool;
  const v1::OptimizerSpec& optimizer;
  const CostModel& model;
  const std::vector<std::string>& data_nodes;
};

// Gives `cuts` their devices, checks memory and simulates. `pinned` is by
// stage; empty: automatic.
// FailedPrecondition: too few devices, or a stage does not fit; with numbers.
absl::StatusOr<Candidate> Judge(const Planner& planner,
                                const std::vector<StageCut>& cuts,
                                const std::vector<std::vector<int>>& pinned);

// What the partitioner says for exactly `stages` stages on `workers` devices,
// its cuts shifted so that core groups are balanced where devices share cores.
// Replicas and devices may be pinned, by stage.
absl::StatusOr<Candidate> CandidateOf(
    const Planner& planner, int stages, int workers,
    const std::vector<int>& replicas = {},
    const std::vector<std::vector<int>>& pinned = {});

// The answer of the paper's recurrences over all devices, level by level where
// all nodes have as many.
absl::StatusOr<Candidate> PaperCandidate(const Planner& planner);

// All that are worth a simulation, the best first: the shortest step, and of
// those within 1 % of it (10 % where the number of stages is pinned) the one
// with the fewest devices, then stages.
// The error of the most hopeful one where none is feasible.
absl::StatusOr<std::vector<Candidate>> Candidates(const Planner& planner,
                                                  const Pins& pins);

// Seconds per minibatch of each stage by the cost model, sharing counted.
std::vector<double> StageSeconds(const Planner& planner,
                                 const Candidate& candidate);
// Of the slowest stage or cut.
double BottleneckSeconds(const Planner& planner, const Candidate& candidate);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_CANDIDATES_H_
