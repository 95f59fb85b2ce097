// Errors on the wire: google.rpc.Status in grpc-status-details-bin, with an
// ErrorInfo (reason, domain pipework.v1), and for a spec's problems a
// BadRequest and each v1::Problem.
#ifndef PIPEWORK_DAEMON_COORDINATOR_RPC_ERROR_H_
#define PIPEWORK_DAEMON_COORDINATOR_RPC_ERROR_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"
#include "proto/coordinator.pb.h"

namespace pipework {

// `status` with an UPPER_SNAKE reason for programs.
absl::Status WithReason(const absl::Status& status, absl::string_view reason);

// INVALID_SPEC with all problems. REQUIRES: there is one.
absl::Status SpecRejected(const std::vector<v1::Problem>& problems);

// At most kMaxProblems problems and about 32 KiB travel; the message stays one
// line. A status without a reason gets the usual one of its code.
constexpr int kMaxProblems = 50;
grpc::Status ToRpc(const absl::Status& status);

// The way back, for clients of ours.
absl::Status FromRpc(const grpc::Status& status);
std::string ReasonOf(const absl::Status& status);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_RPC_ERROR_H_
