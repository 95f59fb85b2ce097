#include "scheduler/schedules/schedule.h"

namespace pipework {

std::vector<int64_t> OwnUnits(const Program& program, StageId stage,
                              ReplicaId replica) {
  std::vector<int64_t> units;
  const int64_t first = program.segment.first_unit();
  const int64_t end = first + program.segment.units();
  for (int64_t unit = first; unit < end; ++unit) {
    if (program.owner(stage, unit) == replica) units.push_back(unit);
  }
  return units;
}

Action UnitAction(ActionKind kind, const Program& program, int64_t unit) {
  Action action;
  action.kind = kind;
  action.number = unit;
  if (program.unit_is_microbatch) {
    const int64_t m = program.segment.microbatches;
    action.minibatch = MinibatchId{unit / m};
    action.microbatch = MicrobatchId{static_cast<int>(unit % m)};
  } else {
    action.minibatch = MinibatchId{unit};
  }
  return action;
}

Action UpdateAction(const Program& program, StageId stage, int64_t index) {
  const int64_t number = program.segment.first_version(stage) + index;
  const int64_t last = program.units_of_update(stage, number).end - 1;
  Action action = UnitAction(ActionKind::kUpdate, program, last);
  action.number = number;
  return action;
}

}  // namespace pipework
