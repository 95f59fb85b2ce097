#include "scheduler/passes/insert_releases.h"

#include <utility>
#include <vector>

namespace pipework {

void InsertReleases(Program* program) {
  for (Row& row : program->rows) {
    std::vector<Action> actions;
    actions.reserve(row.actions.size() + row.actions.size() / 3);
    for (size_t i = 0; i < row.actions.size(); ++i) {
      const Action& action = row.actions[i];
      actions.push_back(action);
      if (action.kind != ActionKind::kBackward) continue;
      while (i + 1 < row.actions.size() &&
             row.actions[i + 1].kind == ActionKind::kSendBackward) {
        actions.push_back(row.actions[++i]);
      }
      Action release;
      release.kind = ActionKind::kRelease;
      release.number = action.number;
      release.minibatch = action.minibatch;
      release.microbatch = action.microbatch;
      release.chunk = action.chunk;
      actions.push_back(release);
    }
    row.actions = std::move(actions);
  }
}

}  // namespace pipework
