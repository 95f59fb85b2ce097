// The table of schedules. A new one is a file pair in this folder and a line
// here.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/schedules/flush.h"
#include "scheduler/schedules/gpipe.h"
#include "scheduler/schedules/interleaved.h"
#include "scheduler/schedules/model_parallel.h"
#include "scheduler/schedules/one_f_one_b.h"
#include "scheduler/schedules/schedule.h"
#include "scheduler/schedules/two_version.h"
#include "scheduler/schedules/zero_bubble.h"

namespace pipework {
namespace {

constexpr absl::string_view kAsynchronous[] = {"stash", "vertical_sync",
                                               "none"};
constexpr absl::string_view kStash[] = {"stash"};
constexpr absl::string_view kFlush[] = {"flush"};
constexpr absl::string_view kTwoVersion[] = {"two_version"};

constexpr absl::string_view kNeverSecond =
    "it updates only while nothing is in flight, so there is never a second "
    "version";

constexpr absl::string_view kNoSplit =
    "layers compute the gradients of input and weights in one backward";

// Of 1F1B, whatever a unit is.
int WindowOf(const PipelineShape& shape, const Segment&, StageId stage) {
  return Warmup(shape, stage) + 1;
}

// Of 1F1B that ends with every minibatch.
int WindowOfFlush(const PipelineShape& shape, const Segment& segment,
                  StageId stage) {
  return std::min(Warmup(shape, stage) + 1, MostOwned(shape, segment, stage));
}

constexpr ScheduleEntry kSchedules[] = {
    {"1f1b", "one forward, one backward, asynchronous (PipeDream)",
     kAsynchronous,
     "it updates while other minibatches are in flight: never a flush, and not "
     "once for several microbatches",
     /*unit_is_microbatch=*/false, /*synchronous=*/false,
     /*fixed_in_flight=*/0, /*fixed_chunks=*/1, /*folded=*/false,
     &OneForwardOneBackward, &WindowOf,
     /*check=*/nullptr, /*not_runnable=*/""},
    {"model_parallel", "one minibatch at a time, no pipelining", kStash,
     "with one minibatch in flight there is nothing to choose",
     /*unit_is_microbatch=*/false, /*synchronous=*/false,
     /*fixed_in_flight=*/1, /*fixed_chunks=*/1, /*folded=*/false,
     &ModelParallel, &WindowOf,
     /*check=*/nullptr, /*not_runnable=*/""},
    {"gpipe", "every forward, then every backward, then the update", kFlush,
     kNeverSecond, /*unit_is_microbatch=*/true, /*synchronous=*/true,
     /*fixed_in_flight=*/0, /*fixed_chunks=*/1, /*folded=*/false, &Gpipe,
     &GpipeInFlight, /*check=*/nullptr,
     /*not_runnable=*/""},
    {"flush", "1F1B over microbatches, then a flush and the update", kFlush,
     kNeverSecond, /*unit_is_microbatch=*/true, /*synchronous=*/true,
     /*fixed_in_flight=*/0, /*fixed_chunks=*/1, /*folded=*/false, &Flush,
     &WindowOfFlush, /*check=*/nullptr,
     /*not_runnable=*/""},
    {"two_version", "1F1B over microbatches without a flush (PipeDream-2BW)",
     kTwoVersion,
     "its microbatches read the weights of one update before, which no other "
     "policy keeps",
     /*unit_is_microbatch=*/true, /*synchronous=*/false,
     /*fixed_in_flight=*/0, /*fixed_chunks=*/1, /*folded=*/false, &TwoVersion,
     &WindowOf, &CheckTwoVersion,
     /*not_runnable=*/""},
    {"interleaved", "1F1B over several chunks of layers on each stage", kFlush,
     kNeverSecond, /*unit_is_microbatch=*/true, /*synchronous=*/true,
     /*fixed_in_flight=*/0, /*fixed_chunks=*/0, /*folded=*/false, &Interleaved,
     &InterleavedInFlight, &CheckInterleaved,
     "an executor holds the layers of one stage, not chunks of several",
     /*equal_replicas=*/true},
    {"zb_h1", "zero bubble with the memory of 1F1B", kFlush, kNeverSecond,
     /*unit_is_microbatch=*/true, /*synchronous=*/true, /*fixed_in_flight=*/0,
     /*fixed_chunks=*/1, /*folded=*/false, &ZeroBubbleH1, &ZeroBubbleH1InFlight,
     &CheckZeroBubble, kNoSplit, /*equal_replicas=*/true},
    {"zb_h2", "zero bubble with twice the memory of 1F1B", kFlush, kNeverSecond,
     /*unit_is_microbatch=*/true, /*synchronous=*/true, /*fixed_in_flight=*/0,
     /*fixed_chunks=*/1, /*folded=*/false, &ZeroBubbleH2, &ZeroBubbleH2InFlight,
     &CheckZeroBubble, kNoSplit, /*equal_replicas=*/true},
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
