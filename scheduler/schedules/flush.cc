// PipeDream-Flush (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN
// Training", ICML 2021).
//
// Each minibatch is cut into microbatches, microbatch j of a stage on replica
// j mod r_s, or whose turn it is in the round where the stage has shares.
// Within the minibatch a replica admits microbatches up to Lead after its
// oldest in flight, which are at most warm(s) + 1, and otherwise finishes the
// oldest; then the pipe is empty. After every `accumulate` minibatches all
// replicas update.
#include "scheduler/schedules/flush.h"

#include "scheduler/schedules/schedule.h"

namespace pipework {

std::vector<Action> Flush(const Program& program, StageId stage,
                          ReplicaId replica) {
  const Segment& segment = program.segment;
  const int64_t lead = Lead(program.shape, stage);
  std::vector<int64_t> own;  // microbatches of any minibatch
  for (int64_t j = 0; j < segment.microbatches; ++j) {
    if (program.owner(stage, j) == replica) own.push_back(j);
  }

  std::vector<Action> actions;
  int64_t update = 0;
  for (int64_t minibatch = 0; minibatch < segment.minibatches; ++minibatch) {
    const int64_t first =
        segment.first_unit() + minibatch * segment.microbatches;
    size_t admitted = 0;
    for (size_t finished = 0; finished < own.size();) {
      if (admitted < own.size() && own[admitted] - own[finished] <= lead) {
        actions.push_back(
            UnitAction(ActionKind::kForward, program, first + own[admitted++]));
      } else {
        actions.push_back(UnitAction(ActionKind::kBackward, program,
                                     first + own[finished++]));
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
