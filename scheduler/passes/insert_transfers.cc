#include "scheduler/passes/insert_transfers.h"

#include <utility>
#include <vector>

#include "scheduler/chunks.h"

namespace pipework {
namespace {

// Between `compute` and a neighbour; its chunk is the receiver's.
void Append(const Program& program, ActionKind kind, const Action& compute,
            StageId own, const Neighbour& peer, std::vector<Action>* actions) {
  if (peer.stage == own) return;
  const bool receives = kind == ActionKind::kReceiveForward ||
                        kind == ActionKind::kReceiveBackward;
  Action action;
  action.kind = kind;
  action.number = compute.number;
  action.minibatch = compute.minibatch;
  action.microbatch = compute.microbatch;
  action.peer_stage = peer.stage;
  action.peer_replica = program.owner(peer.stage, compute.number);
  action.evaluation = compute.kind == ActionKind::kEvaluate;
  action.chunk = receives ? compute.chunk : peer.chunk;
  actions->push_back(action);
}

}  // namespace

void InsertTransfers(Program* program) {
  const std::vector<StageEdge> edges = EdgesOf(program->shape);
  for (Row& row : program->rows) {
    std::vector<Neighbours> neighbours;  // by chunk
    for (int c = 0; c < program->shape.chunks; ++c) {
      neighbours.push_back(NeighboursOf(program->shape, edges, row.stage, c));
    }
    std::vector<Action> actions;
    actions.reserve(row.actions.size() * 3);
    for (const Action& action : row.actions) {
      const bool forward = action.kind == ActionKind::kForward ||
                           action.kind == ActionKind::kEvaluate;
      const bool backward = action.kind == ActionKind::kBackward;
      const Neighbours& around = neighbours[action.chunk];
      const auto transfer = [&](ActionKind kind, const Neighbour& peer) {
        Append(*program, kind, action, row.stage, peer, &actions);
      };
      for (const Neighbour& from : around.producers) {
        if (forward) transfer(ActionKind::kReceiveForward, from);
      }
      for (const Neighbour& from : around.consumers) {
        if (backward && from.has_gradient) {
          transfer(ActionKind::kReceiveBackward, from);
        }
      }
      actions.push_back(action);
      for (const Neighbour& to : around.consumers) {
        if (forward) transfer(ActionKind::kSendForward, to);
      }
      for (const Neighbour& to : around.producers) {
        if (backward && to.has_gradient) {
          transfer(ActionKind::kSendBackward, to);
        }
      }
    }
    row.actions = std::move(actions);
  }
}

}  // namespace pipework
