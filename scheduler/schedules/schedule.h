// A schedule says which compute actions one stage replica runs, in order.
//
// A pure function from numbers to data: F, B and U of one row, without
// transfers, versions, all-reduces and releases; passes add those.
#ifndef PIPEWORK_SCHEDULER_SCHEDULES_SCHEDULE_H_
#define PIPEWORK_SCHEDULER_SCHEDULES_SCHEDULE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/program.h"

namespace pipework {

// `program` has its shape and segment; its rows are not read.
using ScheduleFn = std::vector<Action> (*)(const Program& program,
                                           StageId stage, ReplicaId replica);

// A number of units that a replica of `stage` has in flight, or the like.
using CountFn = int (*)(const PipelineShape& shape, const Segment& segment,
                        StageId stage);

// InvalidArgument: a shape or a segment that the schedule has no order for.
using CheckFn = absl::Status (*)(const PipelineShape& shape,
                                 const Segment& segment);

struct ScheduleEntry {
  absl::string_view name;
  absl::string_view summary;
  // Weight policies that it goes with, the default first, and why no others.
  absl::Span<const absl::string_view> weights;
  absl::string_view why_these_weights;
  // A unit is a microbatch, not a minibatch.
  bool unit_is_microbatch;
  // Nothing is in flight at an update: the result is that of plain SGD.
  bool synchronous;
  // in_flight that it fixes; 0: the user's.
  int fixed_in_flight;
  // Chunks that a stage's layers are in; 0: the user's. See chunks.h.
  int fixed_chunks;
  bool folded;
  ScheduleFn build;
  // Most units between their forward and their release on a replica, reached
  // in a run that is long enough. Closed form.
  CountFn in_flight;
  // What it asks of shape and segment; nullptr: nothing.
  CheckFn check;
  // Why the executors do not run it yet; empty: they do. Programs, pictures
  // and predictions work in any case.
  absl::string_view not_runnable;
  // All stages must have as many replicas.
  bool equal_replicas = false;
};

// The schedules in the order a reader wants.
absl::Span<const ScheduleEntry> Schedules();

// NotFound lists the known ones.
absl::StatusOr<const ScheduleEntry*> FindSchedule(absl::string_view name);

// ---- what schedules are written with ----------------------------------------

// The units of the segment that the replica owns, ascending.
std::vector<int64_t> OwnUnits(const Program& program, StageId stage,
                              ReplicaId replica);

// Those of minibatch `index` of the segment, from 0, where units are
// microbatches.
std::vector<int64_t> OwnMicrobatches(const Program& program, StageId stage,
                                     ReplicaId replica, int64_t index);

// The row of a schedule that empties the pipe after every minibatch:
// `minibatch` appends what it does with the replica's microbatches of one
// (which may be none); after every `accumulate` minibatches follows U.
std::vector<Action> RowOfFlushes(
    const Program& program, StageId stage, ReplicaId replica,
    absl::FunctionRef<void(const std::vector<int64_t>& units,
                           std::vector<Action>* actions)>
        minibatch);

// F, B or E of `unit`, with its minibatch and microbatch.
Action UnitAction(ActionKind kind, const Program& program, int64_t unit);

// U of the segment's update `index`, from 0.
Action UpdateAction(const Program& program, StageId stage, int64_t index);

// Most microbatches of a minibatch that one replica of the stage owns.
int MostOwned(const PipelineShape& shape, const Segment& segment,
              StageId stage);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_SCHEDULES_SCHEDULE_H_
