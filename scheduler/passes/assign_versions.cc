#include "scheduler/passes/assign_versions.h"

#include <vector>

namespace pipework {

void AssignVersions(const Policy& policy, Program* program) {
  const Segment& segment = program->segment;
  const int64_t first = segment.first_unit();
  // By unit: the newest version on stage 0 when the unit entered. Rows come by
  // stage, so stage 0 has filled it before anyone else asks.
  std::vector<WeightVersion> at_entry(segment.units());
  std::vector<WeightVersion> forward_read(segment.units());
  for (Row& row : program->rows) {
    VersionQuery query;
    query.newest = WeightVersion{segment.first_version(row.stage)};
    for (Action& action : row.actions) {
      const size_t unit = action.number - first;
      switch (action.kind) {
        case ActionKind::kForward:
          if (row.stage == StageId{0}) at_entry[unit] = query.newest;
          query.at_entry = at_entry[unit];
          query.forward_read = query.newest;
          action.version = policy.ForForward(query);
          forward_read[unit] = action.version;
          break;
        case ActionKind::kBackward:
        case ActionKind::kWeightGradient:
          query.at_entry = at_entry[unit];
          query.forward_read = forward_read[unit];
          action.version = policy.ForBackward(query);
          break;
        case ActionKind::kEvaluate:
          action.version = query.newest;
          break;
        case ActionKind::kUpdate:
          query.newest = WeightVersion{action.number + 1};
          action.version = query.newest;
          break;
        default:
          break;
      }
    }
  }
}

}  // namespace pipework
