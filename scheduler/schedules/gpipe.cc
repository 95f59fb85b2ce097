// GPipe (Huang et al., "GPipe: Easy Scaling with Micro-Batch Pipeline
// Parallelism", 2019).
//
// A minibatch is cut into microbatches. Every stage runs the forwards of all of
// them, then the backwards of all of them, then the update.
//
// Backwards come in ascending order, as the PipeDream-2BW paper draws them. The
// original figure has them descending; the bubble and the memory are the same,
// but in ascending order gradients are added as `flush` and plain training add
// them, so the three are equal bit for bit.
#include "scheduler/schedules/gpipe.h"

#include "scheduler/schedules/schedule.h"

namespace pipework {

std::vector<Action> Gpipe(const Program& program, StageId stage,
                          ReplicaId replica) {
  return RowOfFlushes(
      program, stage, replica,
      [&](const std::vector<int64_t>& units, std::vector<Action>* actions) {
        for (const ActionKind kind :
             {ActionKind::kForward, ActionKind::kBackward}) {
          for (const int64_t unit : units) {
            actions->push_back(UnitAction(kind, program, unit));
          }
        }
      });
}

int GpipeInFlight(const PipelineShape& shape, const Segment& segment,
                  StageId stage) {
  return MostOwned(shape, segment, stage);
}

}  // namespace pipework
