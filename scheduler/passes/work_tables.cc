#include "scheduler/passes/work_tables.h"

#include <algorithm>

namespace pipework {

WorkTable::WorkTable(const Program& program, const ActionTimes& times,
                     int chunks)
    : chunks_(chunks) {
  const int stages = program.shape.stages();
  for (int s = 0; s < stages; ++s) {
    for (int c = 0; c < chunks_; ++c) {
      double share = 1.0 / chunks_;
      if (!times.chunk_shares.empty()) {
        const std::vector<double>& shares = times.chunk_shares[s];
        share = c < static_cast<int>(shares.size()) ? shares[c] : 0;
      }
      forward_.push_back(EntryOf(times.forward_seconds, s) * share);
      backward_.push_back(EntryOf(times.backward_seconds, s) * share);
      weight_.push_back(EntryOf(times.weight_gradient_seconds, s) * share);
    }
    update_.push_back(EntryOf(times.update_seconds, s));
  }
}

double WorkTable::Seconds(int stage, const Action& action) const {
  switch (action.kind) {
    case ActionKind::kForward:
    case ActionKind::kEvaluate:
      return forward_[stage * chunks_ + action.chunk];
    case ActionKind::kBackward:
      return backward_[stage * chunks_ + action.chunk];
    case ActionKind::kWeightGradient:
      return weight_[stage * chunks_ + action.chunk];
    case ActionKind::kUpdate:
      return update_[stage];
    default:
      return 0;
  }
}

EdgeTable::EdgeTable(const PipelineShape& shape) : of_stage_(shape.stages()) {
  const std::vector<StageEdge> edges = EdgesOf(shape);
  for (size_t i = 0; i < edges.size(); ++i) {
    const int from = edges[i].from.value();
    const int to = edges[i].to.value();
    of_stage_[from].emplace_back(to, static_cast<int>(i));
    if (to != from) of_stage_[to].emplace_back(from, static_cast<int>(i));
  }
}

double EdgeTable::Of(const std::vector<double>& list, int stage,
                     int peer) const {
  if (list.empty()) return 0;
  for (const auto& [other, edge] : of_stage_[stage]) {
    if (other == peer) return list[edge];
  }
  return *std::max_element(list.begin(), list.end());
}

}  // namespace pipework
