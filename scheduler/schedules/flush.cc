// PipeDream-Flush (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN
// Training", ICML 2021).
//
// Each minibatch is cut into microbatches, microbatch j of a stage on replica
// j mod r_s. Within the minibatch a replica admits microbatches while it has
// room for warm(s) + 1 and otherwise finishes the oldest; then the pipe is
// empty. After every `accumulate` minibatches all replicas update.
#include "scheduler/schedules/flush.h"

#include "scheduler/schedules/schedule.h"

namespace pipework {

std::vector<Action> Flush(const Program& program, StageId stage,
                          ReplicaId replica) {
  const Segment& segment = program.segment;
  const int window = Warmup(program.shape, stage) + 1;
  const int r = program.shape.replicas[stage.value()];
  const int own = segment.microbatches > replica.value()
                      ? (segment.microbatches - replica.value() + r - 1) / r
                      : 0;

  std::vector<Action> actions;
  int64_t update = 0;
  for (int64_t minibatch = 0; minibatch < segment.minibatches; ++minibatch) {
    const int64_t first = segment.first_unit() +
                          minibatch * segment.microbatches + replica.value();
    int admitted = 0;
    for (int finished = 0; finished < own;) {
      if (admitted < own && admitted - finished < window) {
        actions.push_back(UnitAction(ActionKind::kForward, program,
                                     first + int64_t{r} * admitted++));
      } else {
        actions.push_back(UnitAction(ActionKind::kBackward, program,
                                     first + int64_t{r} * finished++));
      }
    }
    if ((minibatch + 1) % segment.accumulate == 0 ||
        minibatch + 1 == segment.minibatches) {
      actions.push_back(UpdateAction(program, stage, update++));
    }
  }
  return actions;
}

}  // namespace pipework
