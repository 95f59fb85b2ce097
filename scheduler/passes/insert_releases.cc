#include "scheduler/passes/insert_releases.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pipework {

void InsertReleases(Program* program) {
  for (Row& row : program->rows) {
    // Where the backward is split, activations are needed until W.
    const bool split = std::any_of(
        row.actions.begin(), row.actions.end(), [](const Action& action) {
          return action.kind == ActionKind::kWeightGradient;
        });
    const ActionKind last =
        split ? ActionKind::kWeightGradient : ActionKind::kBackward;
    std::vector<Action> actions;
    actions.reserve(row.actions.size() + row.actions.size() / 3);
    for (size_t i = 0; i < row.actions.size(); ++i) {
      const Action& action = row.actions[i];
      actions.push_back(action);
      if (action.kind != last) continue;
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
