// What every handler needs: the gate, deadlines, errors.
#ifndef PIPEWORK_DAEMON_COORDINATOR_CALL_H_
#define PIPEWORK_DAEMON_COORDINATOR_CALL_H_

#include <algorithm>

#include "absl/time/time.h"
#include "daemon/coordinator/auth.h"
#include "daemon/coordinator/core.h"
#include "daemon/coordinator/rpc_error.h"
#include "grpcpp/server_context.h"

namespace pipework {

// The call's deadline on the monotonic clock, `longest` from now where it has
// none.
inline absl::Time DeadlineOf(const grpc::ServerContextBase& context,
                             absl::Duration longest = absl::Minutes(1)) {
  const absl::Duration left =
      absl::FromChrono(context.deadline()) - absl::Now();
  return MonotonicNow() + std::min(left, longest);
}

// Fills `reply` from a StatusOr.
template <typename T>
grpc::Status Reply(absl::StatusOr<T> result, T* reply) {
  if (!result.ok()) return ToRpc(result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

}  // namespace pipework

// Returns from a handler unless the caller may call.
#define PIPE_GATE(gate, context)                                      \
  do {                                                                \
    const ::absl::Status pipe_admitted = (gate).Check(*(context));    \
    if (!pipe_admitted.ok()) return ::pipework::ToRpc(pipe_admitted); \
  } while (false)

#endif  // PIPEWORK_DAEMON_COORDINATOR_CALL_H_
