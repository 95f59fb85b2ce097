// Schedule and weight policy by name -> a validated program.
#ifndef PIPEWORK_SCHEDULER_COMPILE_H_
#define PIPEWORK_SCHEDULER_COMPILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "scheduler/program.h"

namespace pipework {

struct Recipe {
  std::string schedule;  // 1f1b, flush
  std::string weights;   // stash, flush; empty: the schedule's own
};

// Runs the passes: schedule, assign_versions, insert_transfers,
// insert_all_reduces, insert_releases, drain and save, validate.
// InvalidArgument: a pair that makes no sense, microbatches with an
// asynchronous schedule, impossible numbers. NotFound: unknown names.
// Pure: equal arguments give equal programs on every machine.
absl::StatusOr<Program> Compile(const Recipe& recipe,
                                const PipelineShape& shape,
                                const Segment& segment);

// Fills in the weights that a schedule takes by default and refuses pairs that
// make no sense, with the reason.
absl::StatusOr<Recipe> CheckRecipe(const Recipe& recipe, int microbatches);

// Which stages exchange tensors when `graph` is cut as `plan` says: producers
// and consumers by layer inputs; "x" and "y" come from stage 0.
std::vector<StageEdge> StageEdges(const v1::Graph& graph, const v1::Plan& plan);

// The shape of a planned pipeline.
PipelineShape ShapeOf(const v1::Graph& graph, const v1::Plan& plan);

std::vector<std::string> ScheduleNames();
std::vector<std::string> WeightPolicyNames();

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_COMPILE_H_
