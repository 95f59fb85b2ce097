// How many minibatches to keep in flight, and what other numbers would buy.
//
// NOAM fills the pipe where transfers take no time. With a one-way transfer of
// c a straight pipeline of equal stages needs 2 (P - 1 - s) forwards before the
// first backward of stage s, at the price of staleness and memory.
#ifndef PIPEWORK_SCHEDULER_PLANNING_DEPTHS_H_
#define PIPEWORK_SCHEDULER_PLANNING_DEPTHS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "scheduler/planning/candidates.h"

namespace pipework {

// The same layout with the shallowest depth that is as fast as any (within
// 1 %) and fits into memory, up to twice NOAM. Never slower than NOAM where
// that fits.
absl::StatusOr<Candidate> WithBestDepth(const Candidate& candidate);

// Depths 1, half of NOAM, NOAM and on to twice that, and the candidate's own:
// at most 12 of them, fewer on many devices, where each costs a long
// simulation.
absl::StatusOr<std::vector<v1::Depth>> DepthsOf(const Candidate& candidate);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_DEPTHS_H_
