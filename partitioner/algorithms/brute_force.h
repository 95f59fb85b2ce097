// Every partition there is, for tests of the others.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_BRUTE_FORCE_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_BRUTE_FORCE_H_

#include <cstdint>
#include <functional>

#include "partitioner/algorithms/partitioner.h"

namespace pipework {
namespace testing {

// Calls `body` with every way to cut the layers and to spread all workers of
// the only level over the stages.
void ForEachPartition(
    const PartitionInput& input,
    const std::function<void(const std::vector<StageCut>&)>& body);

// Seconds of the slowest stage or cut.
double SecondsOf(const PartitionInput& input,
                 const std::vector<StageCut>& stages);

// The least of them; with input.stages only partitions of so many. Infinity
// where there is none.
double BestSeconds(const PartitionInput& input);

// Small integers for costs, from a fixed seed.
PartitionInput RandomInput(uint32_t seed, int layers, int workers,
                           const CostModel* model);

}  // namespace testing
}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_BRUTE_FORCE_H_
