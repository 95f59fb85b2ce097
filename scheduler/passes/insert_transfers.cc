#include "scheduler/passes/insert_transfers.h"

#include <utility>
#include <vector>

namespace pipework {
namespace {

Action Transfer(const Program& program, ActionKind kind, const Action& compute,
                StageId peer) {
  Action action;
  action.kind = kind;
  action.number = compute.number;
  action.minibatch = compute.minibatch;
  action.microbatch = compute.microbatch;
  action.peer_stage = peer;
  action.peer_replica = program.owner(peer, compute.number);
  action.evaluation = compute.kind == ActionKind::kEvaluate;
  action.chunk = compute.chunk;
  return action;
}

}  // namespace

void InsertTransfers(Program* program) {
  const std::vector<StageEdge> edges = EdgesOf(program->shape);
  for (Row& row : program->rows) {
    std::vector<Action> actions;
    actions.reserve(row.actions.size() * 3);
    for (const Action& action : row.actions) {
      const bool forward = action.kind == ActionKind::kForward ||
                           action.kind == ActionKind::kEvaluate;
      const bool backward = action.kind == ActionKind::kBackward;
      for (const StageEdge& edge : edges) {
        if (forward && edge.to == row.stage) {
          actions.push_back(Transfer(*program, ActionKind::kReceiveForward,
                                     action, edge.from));
        }
        if (backward && edge.from == row.stage && edge.has_gradient) {
          actions.push_back(Transfer(*program, ActionKind::kReceiveBackward,
                                     action, edge.to));
        }
      }
      actions.push_back(action);
      for (const StageEdge& edge : edges) {
        if (forward && edge.from == row.stage) {
          actions.push_back(
              Transfer(*program, ActionKind::kSendForward, action, edge.to));
        }
        if (backward && edge.to == row.stage && edge.has_gradient) {
          actions.push_back(
              Transfer(*program, ActionKind::kSendBackward, action, edge.from));
        }
      }
    }
    row.actions = std::move(actions);
  }
}

}  // namespace pipework
