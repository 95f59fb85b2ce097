#include "scheduler/passes/insert_all_reduces.h"

#include <utility>
#include <vector>

namespace pipework {

void InsertAllReduces(Program* program) {
  for (Row& row : program->rows) {
    if (program->shape.replicas[row.stage.value()] == 1) continue;
    std::vector<Action> actions;
    actions.reserve(row.actions.size() + row.actions.size() / 2);
    for (const Action& action : row.actions) {
      if (action.kind == ActionKind::kUpdate) {
        Action reduce = action;
        reduce.kind = ActionKind::kAllReduce;
        reduce.version = WeightVersion{-1};
        actions.push_back(reduce);
      }
      actions.push_back(action);
    }
    row.actions = std::move(actions);
  }
}

}  // namespace pipework
