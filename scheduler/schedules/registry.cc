// The table of schedules. A new one is a file pair in this folder and a line
// here.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/schedules/flush.h"
#include "scheduler/schedules/one_f_one_b.h"
#include "scheduler/schedules/schedule.h"

namespace pipework {
namespace {

constexpr absl::string_view kStash[] = {"stash"};
constexpr absl::string_view kFlush[] = {"flush"};

constexpr ScheduleEntry kSchedules[] = {
    {"1f1b", "one forward, one backward, asynchronous (PipeDream)", kStash,
     /*unit_is_microbatch=*/false, &OneForwardOneBackward},
    {"flush", "1F1B over microbatches, then a flush and the update", kFlush,
     /*unit_is_microbatch=*/true, &Flush},
};

}  // namespace

absl::Span<const ScheduleEntry> Schedules() { return kSchedules; }

absl::StatusOr<const ScheduleEntry*> FindSchedule(absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const ScheduleEntry& entry : kSchedules) {
    if (entry.name == name) return &entry;
    known.push_back(entry.name);
  }
  return absl::NotFoundError(absl::StrCat(
      "schedule \"", name,
      "\" is not known; known schedules: ", absl::StrJoin(known, ", ")));
}

}  // namespace pipework
