// What a node says to its coordinator beside the session: shards to and fro.
// And the channel that both use. gRPC stays in the .cc files.
#ifndef PIPEWORK_DAEMON_NODE_COORDINATOR_CLIENT_H_
#define PIPEWORK_DAEMON_NODE_COORDINATOR_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/node.pb.h"

namespace pipework {

// What a session is about.
class SessionHandler {
 public:
  virtual ~SessionHandler() = default;

  // Each message in order, the welcome first, from the session's thread.
  virtual void OnMessage(v1::CoordinatorMessage message) = 0;
  // The next message to send; waits for one. false: no more, the session
  // ends. From a thread that RunSession starts after the welcome.
  virtual bool Next(v1::NodeMessage* message) = 0;
  // The stream is broken or over: Next has to return false now.
  virtual void OnEnd() = 0;
};

class CoordinatorClient {
 public:
  CoordinatorClient(const std::string& address, const std::string& token);
  ~CoordinatorClient();

  // Sends the file at `path`. Idempotent.
  absl::Status PutShard(const v1::RunnerRef& runner, int64_t step,
                        const v1::Shard& shard, const std::string& path);
  // Fetches a file of a checkpoint into `path`, and checks size and hash.
  absl::Status GetShard(const std::string& folder, const v1::Shard& shard,
                        const std::string& path);

  // One session, from hello to end, on the caller's thread. The status is the
  // stream's; a refusal is FailedPrecondition with the coordinator's words.
  absl::Status RunSession(const v1::Hello& hello, SessionHandler& handler);
  // Cuts a session that runs, from another thread.
  void CutSession();
  // Cuts it, and lets none begin that is only about to.
  void EndSessions();

 private:
  struct Stub;
  std::unique_ptr<Stub> stub_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_NODE_COORDINATOR_CLIENT_H_
