// Schedule and weight policy by name -> a validated program.
#ifndef PIPEWORK_SCHEDULER_COMPILE_H_
#define PIPEWORK_SCHEDULER_COMPILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "scheduler/program.h"

namespace pipework {

struct Recipe {
  std::string schedule;  // a name of ScheduleNames()
  std::string weights;   // of WeightPolicyNames(); empty: the schedule's own
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

// Whether `recipe` has an order for this pipeline and these numbers: what
// Compile refuses, without the cost of a program.
absl::Status CheckNumbers(const Recipe& recipe, const PipelineShape& shape,
                          const Segment& segment);

// Unimplemented: executors cannot run the schedule yet; says why. Compile, and
// with it predictions and pictures, works in any case.
absl::Status CheckRunnable(const Recipe& recipe);

// The schedule takes microbatches. False for unknown names.
bool TakesMicrobatches(absl::string_view schedule);

// The schedule updates only while nothing is in flight. False for unknown
// names.
bool IsSynchronous(absl::string_view schedule);

// `shape` with what the schedule fixes: in_flight of model_parallel. Compile
// does this; who asks Warmup, Versions or a policy beside it must too.
PipelineShape ShapeFor(const Recipe& recipe, PipelineShape shape);

// What a replica holds at most, in a run that is long enough.
struct Held {
  int units = 0;     // between forward and release; of chunks, each one
  int versions = 0;  // of weights, the newest included
};

// By closed form. Errors: see CheckNumbers.
absl::StatusOr<Held> MostHeld(const Recipe& recipe, const PipelineShape& shape,
                              const Segment& segment, StageId stage);

// Which stages exchange tensors when `graph` is cut as `plan` says: producers
// and consumers by layer inputs; "x" and "y" come from stage 0.
std::vector<StageEdge> StageEdges(const v1::Graph& graph, const v1::Plan& plan);

// The shape of a planned pipeline.
PipelineShape ShapeOf(const v1::Graph& graph, const v1::Plan& plan);

std::vector<std::string> ScheduleNames();
std::vector<std::string> WeightPolicyNames();

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_COMPILE_H_
