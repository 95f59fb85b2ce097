// Pass: which weight version every F, B, W and U reads or writes.
#ifndef PIPEWORK_SCHEDULER_PASSES_ASSIGN_VERSIONS_H_
#define PIPEWORK_SCHEDULER_PASSES_ASSIGN_VERSIONS_H_

#include <vector>

#include "scheduler/program.h"
#include "scheduler/versioning/policy.h"

namespace pipework {

// Walks each row, counts its updates and asks `policy` at every F, B and W.
void AssignVersions(const Policy& policy, Program* program);

// Updates that stage 0 had made since the start of the segment when each unit
// entered, by unit from the segment's first.
std::vector<int64_t> UpdatesAtEntry(const Program& program);

// What a policy is asked for a unit on a stage, but for newest and
// forward_read. `updates_at_entry`: of this unit.
VersionQuery QueryOf(const Program& program, StageId stage, int64_t unit,
                     int64_t updates_at_entry);

// By action of the row: the oldest version that forwards after it read;
// Flight's default where there is none.
std::vector<WeightVersion> OldestToCome(const Row& row);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_ASSIGN_VERSIONS_H_
