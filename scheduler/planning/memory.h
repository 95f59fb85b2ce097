// How much memory a stage takes.
#ifndef PIPEWORK_SCHEDULER_PLANNING_MEMORY_H_
#define PIPEWORK_SCHEDULER_PLANNING_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "partitioner/algorithms/partitioner.h"
#include "partitioner/profile.h"
#include "proto/job.pb.h"
#include "scheduler/planning/workload.h"

namespace pipework {

struct StageMemory {
  int64_t weight_bytes = 0;      // one version
  int64_t stash_bytes = 0;       // the other versions
  int64_t activation_bytes = 0;  // of all units in flight
  int64_t optimizer_bytes = 0;   // gradients and optimizer state
  int64_t workspace_bytes = 0;

  int64_t total() const {
    return weight_bytes + stash_bytes + activation_bytes + optimizer_bytes +
           workspace_bytes;
  }
};

// Per replica, of layers first..last.
StageMemory MemoryOf(const ChainProfile& chain, int first, int last,
                     const Holds& holds, const v1::OptimizerSpec& optimizer);

// What the job's schedule and weight policy hold on a stage of `shape`.
Holds HoldsOf(const Workload& work, const PipelineShape& shape, StageId stage);

// The same for the partitioner, which does not know the other stages yet. With
// a pinned in-flight limit, or microbatches and a replicated first stage, it
// may say more than is held, never less.
HoldsFn HoldsFor(const Workload& work);

// "18.2 GiB", "512 B".
std::string BytesText(int64_t bytes);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_MEMORY_H_
