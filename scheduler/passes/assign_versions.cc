#include "scheduler/passes/assign_versions.h"

#include <algorithm>

namespace pipework {
std::vector<int64_t> UpdatesAtEntry(const Program& program) {
  const Segment& segment = program.segment;
  std::vector<int64_t> entries(segment.units(), 0);
  for (const Row& row : program.rows) {
    if (row.stage != StageId{0}) break;
    int64_t updates = 0;
    for (const Action& action : row.actions) {
      const int64_t index = action.number - segment.first_unit();
      if (action.kind == ActionKind::kUpdate) ++updates;
      if (action.kind == ActionKind::kForward && action.chunk == 0 &&
          index >= 0 && index < segment.units()) {
        entries[index] = updates;
      }
    }
  }
  return entries;
}

VersionQuery QueryOf(const Program& program, StageId stage, int64_t unit,
                     int64_t updates_at_entry) {
  const Segment& segment = program.segment;
  const int64_t first = segment.first_version(stage);
  const int64_t each = program.units_per_update(stage);
  VersionQuery query;
  query.first = WeightVersion{first};
  // The tag counts what stage 0 has absorbed; with replicas a stage makes an
  // update of more or of fewer units than stage 0 does.
  query.at_entry = WeightVersion{
      first + updates_at_entry * program.units_per_update(StageId{0}) / each};
  query.applied_to =
      WeightVersion{first + (unit - segment.first_unit()) / each};
  return query;
}

std::vector<WeightVersion> OldestToCome(const Row& row) {
  std::vector<WeightVersion> oldest(row.actions.size());
  WeightVersion least = Flight().oldest_to_come;
  for (size_t i = row.actions.size(); i-- > 0;) {
    oldest[i] = least;
    if (row.actions[i].kind == ActionKind::kForward) {
      least = std::min(least, row.actions[i].version);
    }
  }
  return oldest;
}

void AssignVersions(const Policy& policy, Program* program) {
  const int64_t first = program->segment.first_unit();
  const std::vector<int64_t> entries = program->segment.evaluation
                                           ? std::vector<int64_t>()
                                           : UpdatesAtEntry(*program);
  for (Row& row : program->rows) {
    WeightVersion newest{program->segment.first_version(row.stage)};
    // What the forward of a unit's chunk read.
    std::vector<WeightVersion> forward_read(entries.size() *
                                            program->shape.chunks);
    for (Action& action : row.actions) {
      switch (action.kind) {
        case ActionKind::kForward:
        case ActionKind::kBackward:
        case ActionKind::kWeightGradient: {
          const size_t unit = action.number - first;
          VersionQuery query =
              QueryOf(*program, row.stage, action.number, entries[unit]);
          query.newest = newest;
          WeightVersion& read =
              forward_read[unit * program->shape.chunks + action.chunk];
          if (action.kind == ActionKind::kForward) {
            query.forward_read = newest;
            read = action.version = policy.ForForward(query);
          } else {
            query.forward_read = read;
            action.version = policy.ForBackward(query);
          }
          break;
        }
        case ActionKind::kEvaluate:
          action.version = newest;
          break;
        case ActionKind::kUpdate:
          newest = action.version = WeightVersion{action.number + 1};
          break;
        default:
          break;
      }
    }
  }
}

}  // namespace pipework
