// How many minibatches to keep in flight, and what other numbers would buy.
//
// NOAM fills the pipe where transfers take no time. With a one-way transfer of
// c a straight pipeline of equal stages needs 2 (P - 1 - s) forwards before the
// first backward of stage s, at the price of staleness and memory.
#ifndef PIPEWORK_SCHEDULER_PLANNING_DEPTHS_H_
#define PIPEWORK_SCHEDULER_PLANNING_DEPTHS_H_

#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "scheduler/planning/candidates.h"

namespace pipework {

// Depths 1, half of the candidate's NOAM, NOAM and on to twice that: at most 12
// of them, fewer on many devices, where each costs a long simulation.
std::set<int> DepthsToTry(const Candidate& candidate);

// The same layout at each of them that fits into memory.
absl::StatusOr<std::vector<Candidate>> AtDepthsThatFit(
    const Candidate& candidate);

// Rank, and of each layout only the shallowest depth that is as fast as any
// (within 1 %).
void RankDepths(std::vector<Candidate>* candidates);

// DepthsToTry and the candidate's own.
absl::StatusOr<std::vector<v1::Depth>> DepthsOf(const Candidate& candidate);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_DEPTHS_H_
