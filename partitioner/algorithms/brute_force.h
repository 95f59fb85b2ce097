// Every partition there is, for tests of the others.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_BRUTE_FORCE_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_BRUTE_FORCE_H_

#include <cstdint>
#include <functional>

#include "partitioner/algorithms/partitioner.h"

namespace pipework {
namespace testing {

// Calls `body` with every way to cut the layers (or states) and to spread all
// workers of the only level over the stages; with input.fewer_workers also
// those that leave some idle.
void ForEachPartition(
    const PartitionInput& input,
    const std::function<void(const std::vector<StageCut>&)>& body);

// Seconds of the slowest stage or cut, on one level. Infinity where a stage
// does not fit.
double SecondsOf(const PartitionInput& input,
                 const std::vector<StageCut>& stages);

// The least of them; with input.stages only partitions of so many, with
// max_stages of at most so many. Over levels: every pipeline of the outermost
// level, whose stages take what the best of every inner pipeline takes.
// Infinity where there is none.
double BestSeconds(const PartitionInput& input);

// The recurrences of pipedream_dp, as they stand, cell by cell with their rule
// for ties: without limits of memory or stages, straight or idle workers.
Partition PlainRecurrences(const PartitionInput& input);

// Small integers for costs, from a fixed seed.
PartitionInput RandomInput(uint32_t seed, int layers, int workers,
                           const CostModel* model);

// The same of a random graph with branches, all states of it.
PartitionInput RandomGraphInput(uint32_t seed, int layers, int workers,
                                const CostModel* model);

// A quarter of all stages, always the same ones, do not fit on one replica at
// the front; behind workers and on more replicas fewer.
FitsFn RandomFits(uint32_t seed);

}  // namespace testing
}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_BRUTE_FORCE_H_
