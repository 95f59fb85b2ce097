// public_code: the optimizer that is published with PipeDream, as it works.
//
// It is here to compare with: its states, costs and search differ from the
// paper's and from ours (public_code.cc says how).
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_PUBLIC_CODE_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_PUBLIC_CODE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "partitioner/algorithms/partitioner.h"
#include "partitioner/states.h"

namespace pipework {

struct PublicCodeOptions {
  // From the innermost out; bytes per second above 0, latency is not counted.
  std::vector<Level> levels;
  bool straight = false;            // no stage is replicated
  bool use_fewer_machines = false;  // some may stay idle
  // Of the copies that a stage holds beside its own; 0: no limit.
  double memory_limit_bytes = 0;
  // Divides the bytes of cuts; 0: cuts cost nothing.
  double activation_compression_ratio = 0;
  int most_states = 2000;

  // InvalidArgument names the first option that cannot work, and why.
  absl::Status Validate() const;
};

struct PublicCodePlan {
  StateGraph states;    // those that the optimizer knows, not all there are
  Partition partition;  // over `states`
  double data_parallel_seconds = 0;  // of all machines as replicas of one stage
};

// Cost: states^3 components^2 time for each level but the outermost, as good
// as states^2 components^2 where computing is what bounds the stages.
// InvalidArgument: options, no layers, or a graph of several parts that nothing
// joins. FailedPrecondition: no partition keeps to the limits; or there are
// more states than most_states, which this optimizer cannot compress.
absl::StatusOr<PublicCodePlan> PublicCode(const LayerGraph& graph,
                                          const PublicCodeOptions& options);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_PUBLIC_CODE_H_
