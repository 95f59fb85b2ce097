// A schedule says which compute actions one stage replica runs, in order.
//
// A pure function from numbers to data: F, B and U of one row, without
// transfers, versions, all-reduces and releases; passes add those.
#ifndef PIPEWORK_SCHEDULER_SCHEDULES_SCHEDULE_H_
#define PIPEWORK_SCHEDULER_SCHEDULES_SCHEDULE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/program.h"

namespace pipework {

// `program` has its shape and segment; its rows are not read.
using ScheduleFn = std::vector<Action> (*)(const Program& program,
                                           StageId stage, ReplicaId replica);

struct ScheduleEntry {
  absl::string_view name;
  absl::string_view summary;
  // Weight policies that it goes with, the default first.
  absl::Span<const absl::string_view> weights;
  // A unit is a microbatch, not a minibatch.
  bool unit_is_microbatch;
  ScheduleFn build;
};

// The schedules in the order a reader wants.
absl::Span<const ScheduleEntry> Schedules();

// NotFound lists the known ones.
absl::StatusOr<const ScheduleEntry*> FindSchedule(absl::string_view name);

// ---- what schedules are written with ----------------------------------------

// The units of the segment that the replica owns, ascending.
std::vector<int64_t> OwnUnits(const Program& program, StageId stage,
                              ReplicaId replica);

// F, B or E of `unit`, with its minibatch and microbatch.
Action UnitAction(ActionKind kind, const Program& program, int64_t unit);

// U of the segment's update `index`, from 0.
Action UpdateAction(const Program& program, StageId stage, int64_t index);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_SCHEDULES_SCHEDULE_H_
