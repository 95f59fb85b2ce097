// Numbers that follow from a spec and what its data holds. Pure.
#ifndef PIPEWORK_DAEMON_COORDINATOR_SPEC_FACTS_H_
#define PIPEWORK_DAEMON_COORDINATOR_SPEC_FACTS_H_

#include <cstdint>

#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace pipework {

// Most samples in one unit: the minibatch, or the microbatch where the
// minibatch is split, by each replica of a pinned first stage too.
int64_t UnitSamples(const v1::JobSpec& spec);

// Minibatches in the whole run.
int64_t TotalSteps(const v1::JobSpec& spec, const v1::DataFacts& facts);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_SPEC_FACTS_H_
