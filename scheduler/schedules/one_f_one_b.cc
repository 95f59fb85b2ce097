// One forward, one backward (Narayanan et al., "PipeDream", SOSP 2019).
//
// A replica of stage s admits its next minibatch while that is at most Lead
// after its oldest in flight, so that it holds at most warm(s) + 1; otherwise
// it finishes the oldest. The start-up, steady and drain phases of the paper
// are this one rule at the start, in the middle and at the end. Minibatch k is
// on replica k mod r_s, and r_s consecutive minibatches (times `accumulate`)
// make one update; with shares a round takes the place of r_s.
#include "scheduler/schedules/one_f_one_b.h"

#include "scheduler/schedules/schedule.h"

namespace pipework {

std::vector<Action> OneForwardOneBackward(const Program& program, StageId stage,
                                          ReplicaId replica) {
  const std::vector<int64_t> units = OwnUnits(program, stage, replica);
  const int64_t lead = Lead(program.shape, stage);
  const int64_t first_update = program.segment.first_version(stage);
  const int64_t updates = program.updates(stage);

  std::vector<Action> actions;
  int64_t update = 0;
  size_t admitted = 0;
  for (size_t finished = 0; finished < units.size();) {
    if (admitted < units.size() && units[admitted] - units[finished] <= lead) {
      actions.push_back(
          UnitAction(ActionKind::kForward, program, units[admitted++]));
      continue;
    }
    actions.push_back(
        UnitAction(ActionKind::kBackward, program, units[finished++]));
    const int64_t end =
        program.units_of_update(stage, first_update + update).end;
    if (finished == units.size() || units[finished] >= end) {
      actions.push_back(UpdateAction(program, stage, update++));
    }
  }
  // A replica without a minibatch in the last, partial group updates with the
  // others: weights stay identical.
  while (update < updates) {
    actions.push_back(UpdateAction(program, stage, update++));
  }
  return actions;
}

}  // namespace pipework
