// Zero bubble (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024).
//
// The backward is split: B, the gradient of the stage's input, which the stage
// before waits for, and W, the gradient of its weights, which nobody waits for
// before the update. Stage s of p runs so many forwards first, and its W so far
// behind its B:
//
//   H1   p - s            forwards, W behind by s     memory of 1F1B
//   H2   2 (p - s) - 1    forwards, W behind by 2 s   twice that, no bubble
//
// then alternates B, W once it is behind enough, F while forwards remain; the
// rest of the W comes last. With equal stages the bubble of H1 is
// (p - 1)(T_F + T_B - T_W), that of H2 (p - 1)(T_F + T_B - 2 T_W).
//
// With r replicas of every stage, each takes every r-th microbatch.
#include "scheduler/schedules/zero_bubble.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "scheduler/schedules/schedule.h"

namespace pipework {
namespace {

std::vector<Action> SplitRow(const Program& program, StageId stage,
                             ReplicaId replica, size_t warm, size_t lag) {
  return RowOfFlushes(
      program, stage, replica,
      [&](const std::vector<int64_t>& units, std::vector<Action>* actions) {
        const auto run = [&](ActionKind kind, size_t* next) {
          actions->push_back(UnitAction(kind, program, units[(*next)++]));
        };
        size_t forwards = 0;
        size_t backwards = 0;
        size_t weights = 0;
        while (forwards < std::min(warm, units.size())) {
          run(ActionKind::kForward, &forwards);
        }
        while (backwards < units.size()) {
          run(ActionKind::kBackward, &backwards);
          if (backwards > lag) run(ActionKind::kWeightGradient, &weights);
          if (forwards < units.size()) run(ActionKind::kForward, &forwards);
        }
        while (weights < units.size()) {
          run(ActionKind::kWeightGradient, &weights);
        }
      });
}

}  // namespace

std::vector<Action> ZeroBubbleH1(const Program& program, StageId stage,
                                 ReplicaId replica) {
  const int p = program.shape.stages();
  const int s = stage.value();
  return SplitRow(program, stage, replica, p - s, s);
}

std::vector<Action> ZeroBubbleH2(const Program& program, StageId stage,
                                 ReplicaId replica) {
  const int p = program.shape.stages();
  const int s = stage.value();
  return SplitRow(program, stage, replica, 2 * (p - s) - 1, 2 * s);
}

int ZeroBubbleH1InFlight(const PipelineShape& shape, const Segment& segment,
                         StageId stage) {
  return std::min(shape.stages(), MostOwned(shape, segment, stage));
}

int ZeroBubbleH2InFlight(const PipelineShape& shape, const Segment& segment,
                         StageId stage) {
  return std::min(2 * shape.stages() - 1, MostOwned(shape, segment, stage));
}

absl::Status CheckZeroBubble(const PipelineShape& shape, const Segment&) {
  for (int s = 1; s < shape.stages(); ++s) {
    if (shape.replicas[s] == shape.replicas[0] &&
        !shape.has_shares(StageId{s}) && !shape.has_shares(StageId{0})) {
      continue;
    }
    return Mismatch(
        "schedules \"zb_h1\" and \"zb_h2\"",
        absl::StrCat("replicas of stage ", s), absl::StrCat(shape.replicas[s]),
        absl::StrCat(shape.replicas[0], ", as many as the first stage has"),
        "schedule flush takes any");
  }
  if (shape.in_flight > 0) {
    return Mismatch("schedules \"zb_h1\" and \"zb_h2\"", "in_flight",
                    absl::StrCat(shape.in_flight), "noam",
                    "its order fixes what is in flight");
  }
  return absl::OkStatus();
}

}  // namespace pipework
