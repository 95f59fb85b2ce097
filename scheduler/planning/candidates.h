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

// What all candidates of a job on one order of its layers have in common.
// Borrows all of it.
struct Planner {
  const Workload& work;
  const DevicePool& pool;
  const v1::OptimizerSpec& optimizer;
  const CostModel& model;
  const std::vector<std::string>& data_nodes;
  // As in PlanningOptions.
  int near_stages = 0;
};

struct Candidate {
  const Planner* planner = nullptr;  // outlives it
  Layout layout;
  Prediction prediction;

  double step_seconds() const { return prediction.step_seconds; }
};

// Gives `cuts` their devices and checks memory. Devices and shares as in `pins`
// where it lists stages. `over` as in CheckMemory.
// FailedPrecondition: too few devices, or a stage does not fit; with numbers.
absl::StatusOr<Layout> SeatCuts(const Planner& planner,
                                const std::vector<StageCut>& cuts,
                                const Pins& pins, double* over = nullptr);

// SeatCuts, then the simulation.
absl::StatusOr<Candidate> Judge(const Planner& planner,
                                const std::vector<StageCut>& cuts,
                                const Pins& pins = {});

// Simulates `layout`.
absl::StatusOr<Candidate> JudgeLayout(const Planner& planner, Layout layout);

// OK where every stage of `layout` fits on its devices; else the stage that is
// furthest above its limit, with the numbers. `over`: what that stage needs,
// divided by its limit.
absl::Status CheckMemory(const Planner& planner, const Layout& layout,
                         double* over = nullptr);

// What the partitioner says for exactly `stages` stages on `workers` devices,
// its cuts shifted so that core groups are balanced where devices share cores.
absl::StatusOr<Candidate> CandidateOf(const Planner& planner, int stages,
                                      int workers);

// All that are worth a simulation, the best first: the shortest step, and of
// those within 1 % of it the one with the fewest devices, then stages. At least
// `wanted` of them where there are so many.
// The error of Proposals where none is feasible.
absl::StatusOr<std::vector<Candidate>> Candidates(const Planner& planner,
                                                  const Pins& pins, int wanted);

// Sorts as above.
void Rank(std::vector<Candidate>* candidates);

// Layouts that `pins` allow and that fit into memory, none simulated. Where
// there is none, the limit of the one that comes nearest to fitting, or else
// the first error.
absl::StatusOr<std::vector<Layout>> Proposals(const Planner& planner,
                                              const Pins& pins);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_CANDIDATES_H_
