// fixed_stages: the best partition with exactly so many stages.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_FIXED_STAGES_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_FIXED_STAGES_H_

#include "partitioner/algorithms/partitioner.h"

namespace pipework {

// All workers of one level in exactly input.stages stages, none without a
// layer; with input.replicas each stage has just those. Cost: O(K N^2 m^2) time
// for K stages.
absl::StatusOr<Partition> FixedStages(const PartitionInput& input);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_FIXED_STAGES_H_
