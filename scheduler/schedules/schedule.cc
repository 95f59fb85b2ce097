#include "scheduler/schedules/schedule.h"

#include <algorithm>

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

std::vector<int64_t> OwnMicrobatches(const Program& program, StageId stage,
                                     ReplicaId replica, int64_t index) {
  std::vector<int64_t> units;
  const int64_t m = program.segment.microbatches;
  const int64_t first = program.segment.first_unit() + index * m;
  for (int64_t unit = first; unit < first + m; ++unit) {
    if (program.owner(stage, unit) == replica) units.push_back(unit);
  }
  return units;
}

std::vector<Action> RowOfFlushes(
    const Program& program, StageId stage, ReplicaId replica,
    absl::FunctionRef<void(const std::vector<int64_t>& units,
                           std::vector<Action>* actions)>
        minibatch) {
  const Segment& segment = program.segment;
  std::vector<Action> actions;
  int64_t update = 0;
  for (int64_t k = 0; k < segment.minibatches; ++k) {
    minibatch(OwnMicrobatches(program, stage, replica, k), &actions);
    if ((k + 1) % segment.accumulate == 0 || k + 1 == segment.minibatches) {
      actions.push_back(UpdateAction(program, stage, update++));
    }
  }
  return actions;
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

int MostOwned(const PipelineShape& shape, const Segment& segment,
              StageId stage) {
  const int round = shape.round(stage);
  int share = 1;  // the largest
  for (int q = 0; q < shape.replicas[stage.value()]; ++q) {
    share = std::max(share, shape.share(stage, ReplicaId{q}));
  }
  return (segment.microbatches + round - 1) / round * share;
}

}  // namespace pipework
