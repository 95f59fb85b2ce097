// pipedream_dp: the partitioning recurrences of PipeDream.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_PIPEDREAM_DP_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_PIPEDREAM_DP_H_

#include "partitioner/algorithms/partitioner.h"

namespace pipework {

// The best partition over all workers of all levels, of layers or of the states
// of a graph, with as many stages as are best (input.stages and input.replicas
// are refused).
//
// Cost, for N states of which P pairs and R triples lie inside each other (a
// chain: N^2/2 and N^3/6) and levels of m_k components:
//   time    O(R m_k^2 / 2) for every level but the outermost, which takes
//           O(P m_L^2 / 2), most of it in blocks of 32; of both only what may
//           beat a coarse partition
//   memory  8 P m_k bytes for the level at work, 8 P for those below
// A limit of stages multiplies both by about itself, where the best partition
// breaks it. A memory limit over several levels does so by the number of ways
// in which outer stages can lie (m_L^2 / 2 for two levels), where the best
// partition breaks it; beyond 600 of them FailedPrecondition says so.
absl::StatusOr<Partition> PipedreamDp(const PartitionInput& input);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_PIPEDREAM_DP_H_
