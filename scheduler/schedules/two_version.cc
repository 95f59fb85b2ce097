// PipeDream-2BW (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN
// Training", ICML 2021).
//
// 1F1B over microbatches that are numbered through the segment, without a
// flush: the last microbatch of one minibatch and the first of the next are in
// flight together. The backward of a minibatch's last microbatch triggers the
// update. The order is PipeDream's; the weight policy of the same name makes
// the delay one update on every stage.
#include "scheduler/schedules/two_version.h"

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "scheduler/schedules/one_f_one_b.h"

namespace pipework {

std::vector<Action> TwoVersion(const Program& program, StageId stage,
                               ReplicaId replica) {
  return OneForwardOneBackward(program, stage, replica);
}

absl::Status CheckTwoVersion(const PipelineShape& shape,
                             const Segment& segment) {
  const int64_t most =
      (int64_t{Lead(shape, StageId{0})} / shape.round(StageId{0}) + 1) *
      shape.round(StageId{0});
  const int64_t got = int64_t{segment.microbatches} * segment.accumulate;
  constexpr absl::string_view kWho = "schedule \"two_version\"";
  if (got < most) {
    return Mismatch(
        kWho,
        segment.accumulate == 1 ? "microbatches" : "microbatches of an update",
        absl::StrCat(got),
        absl::StrCat(most, " or more, the depth of the pipeline"),
        "use more microbatches, or fewer stages");
  }
  // Replicas take turns within each minibatch: where the last round is not
  // full, the order of one stage can wait for that of the next for ever.
  for (int s = 0; s < shape.stages(); ++s) {
    const int r = shape.round(StageId{s});
    if (segment.microbatches % r == 0) continue;
    return Mismatch(
        kWho, "microbatches", absl::StrCat(segment.microbatches),
        absl::StrCat("a multiple of ", r, ", the replicas of stage ", s,
                     " or the sum of their shares"));
  }
  return absl::OkStatus();
}

}  // namespace pipework
