// Pass: where a unit gives up its activations and its weight version.
#ifndef PIPEWORK_SCHEDULER_PASSES_INSERT_RELEASES_H_
#define PIPEWORK_SCHEDULER_PASSES_INSERT_RELEASES_H_

#include "scheduler/program.h"

namespace pipework {

// R after each B and what it sends, or after its W where the backward is split,
// before the update that follows: the update
// may then take over the version that nobody reads any more. The other order
// holds one version more.
void InsertReleases(Program* program);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_INSERT_RELEASES_H_
