// ReplicaGroup makes the replicas of one stage agree: on the sum of their
// gradients before an update, and on their buffers at a drain.
//
// Sums are taken in replica order. The elements are cut into as many chunks as
// there are replicas; the owner of a chunk collects all parts of it, adds them
// from replica 0 on, and sends the sum to everyone. So the bits depend neither
// on the chunks nor on who comes first.
//
// Cost:    each replica sends 2 (r - 1) / r of the bytes, as a ring does, in
//          2 (r - 1) messages.
// Threads: none of its own; the executor's thread makes every call.
#ifndef PIPEWORK_DAEMON_EXECUTOR_REPLICA_GROUP_H_
#define PIPEWORK_DAEMON_EXECUTOR_REPLICA_GROUP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/executor/courier.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace pipework {

class ReplicaGroup {
 public:
  // Borrows both for its life.
  ReplicaGroup(Courier* courier, Backend* backend, int replicas);

  // Replaces the gradients by their sum over the replicas for which `present`
  // is true; the others only take the sum. All replicas call it with the same
  // `update` and `present`. Even without gradients a message passes between
  // each two of them: none of them runs ahead, and a stop comes through.
  absl::Status SumGradients(int64_t update, int64_t minibatch,
                            absl::Span<const bool> present,
                            absl::Span<Tensor> gradients);

  // Replaces the buffers by their mean over all replicas: the sum of the
  // values in replica order, times 1 / replicas. `drain` grows by one with
  // every call, on all replicas alike.
  absl::Status AverageBuffers(int64_t drain, absl::Span<Tensor> buffers);

 private:
  struct Round {
    int first_tensor = 0;  // of the messages
    int64_t number = 0;
    int64_t minibatch = 0;
    std::vector<bool> present;
  };

  absl::Status Sum(const Round& round, absl::Span<Tensor> tensors);

  Courier* const courier_;
  Backend* const backend_;
  const int replicas_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_REPLICA_GROUP_H_
