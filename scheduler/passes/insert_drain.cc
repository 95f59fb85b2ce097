#include "scheduler/passes/insert_drain.h"

namespace pipework {

void InsertDrain(Program* program) {
  const Segment& segment = program->segment;
  if (segment.evaluation) return;
  Action action;
  action.minibatch = MinibatchId{segment.first_minibatch + segment.minibatches};
  for (Row& row : program->rows) {
    action.kind = ActionKind::kDrain;
    row.actions.push_back(action);
    if (!segment.save) continue;
    action.kind = ActionKind::kSave;
    row.actions.push_back(action);
  }
}

}  // namespace pipework
