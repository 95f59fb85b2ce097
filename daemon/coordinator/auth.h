// The token gate: who may call at all. Every handler of ours asks it first;
// an interceptor guards what is not ours (reflection).
#ifndef PIPEWORK_DAEMON_COORDINATOR_AUTH_H_
#define PIPEWORK_DAEMON_COORDINATOR_AUTH_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"

namespace pipework {

// Const after construction; any thread.
class TokenGate {
 public:
  // An empty token lets everybody in.
  explicit TokenGate(std::string token) : token_(std::move(token)) {}

  // Unauthenticated: no "authorization: Bearer TOKEN", or another token.
  absl::Status Check(const grpc::ServerContextBase& context) const;
  bool Admits(
      const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) const;
  bool open() const { return token_.empty(); }

  // Calls of services that are not ours end Unauthenticated, and their
  // requests do not reach the handler.
  void Guard(grpc::ServerBuilder* builder) const;

 private:
  const std::string token_;
};

// The first line of a file. InvalidArgument: shorter than 16 characters, or
// readable by everybody.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_AUTH_H_
