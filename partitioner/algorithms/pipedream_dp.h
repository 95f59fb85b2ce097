// pipedream_dp: the partitioning recurrences of PipeDream.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_PIPEDREAM_DP_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_PIPEDREAM_DP_H_

#include "partitioner/algorithms/partitioner.h"

namespace pipework {

// All workers of all levels, as many stages as are best (input.stages is
// refused). Cost: O(N^3 m^2) time for each level of m components.
absl::StatusOr<Partition> PipedreamDp(const PartitionInput& input);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_PIPEDREAM_DP_H_
