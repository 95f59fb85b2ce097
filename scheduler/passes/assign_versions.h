// Pass: which weight version every F, B and U reads or writes.
#ifndef PIPEWORK_SCHEDULER_PASSES_ASSIGN_VERSIONS_H_
#define PIPEWORK_SCHEDULER_PASSES_ASSIGN_VERSIONS_H_

#include "scheduler/program.h"
#include "scheduler/versioning/policy.h"

namespace pipework {

// Walks each row, counts its updates and asks `policy` at every F and B.
void AssignVersions(const Policy& policy, Program* program);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_ASSIGN_VERSIONS_H_
