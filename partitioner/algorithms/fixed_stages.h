// fixed_stages: the best partition with exactly so many stages.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_FIXED_STAGES_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_FIXED_STAGES_H_

#include "partitioner/algorithms/partitioner.h"

namespace pipework {

// All workers of one level (with input.fewer_workers: some of them) in exactly
// input.stages stages of layers or states, none empty; with input.replicas each
// stage has just those. Levels beyond the first are refused.
//
// Cost, for N states of which P pairs lie inside each other, K stages and m
// workers: O(P m) stages are priced and O(K P (m - K + 1)^2 / 2) sums compared,
// of both only what may beat a partition of fewer states; memory
// 40 K N (m - K + 1) bytes.
absl::StatusOr<Partition> FixedStages(const PartitionInput& input);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_FIXED_STAGES_H_
