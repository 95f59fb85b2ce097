// One attempt of a job: how far each runner has come, and why it broke.
// Works on the JobRecord, so that it survives a restart of the coordinator.
// Pure: no threads, no clock, no gRPC.
#ifndef PIPEWORK_DAEMON_COORDINATOR_ATTEMPT_H_
#define PIPEWORK_DAEMON_COORDINATOR_ATTEMPT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/coordinator/job_record.pb.h"
#include "proto/node.pb.h"
#include "proto/placement.pb.h"

namespace pipework {

// Ranks of causes: the highest one is told as the first cause, and of equals
// the one that came first. Whoever saw the fault itself stands above whoever
// saw a peer go.
constexpr int kCausePeerLost = 10;   // "my peer is gone"
constexpr int kCauseTimeout = 30;    // a phase took too long
constexpr int kCauseQuietExit = 60;  // a runner left without a word
constexpr int kCauseOwnError = 80;   // a runner names its own error
constexpr int kCauseNodeLost = 90;   // a daemon is gone with its runners
constexpr int kCauseKilled = 100;    // a runner died of a signal

class Attempt {
 public:
  // Borrows `record` for the object's life.
  explicit Attempt(v1::JobRecord* record) : record_(record) {}

  // Starts anew: one runner, ASKED, for each node of the placement.
  void Begin(const v1::Placement& placement);

  // Nothing on a node that has no runner of this attempt.
  v1::RunnerRecord* Find(absl::string_view node);
  const v1::RunnerRecord* Find(absl::string_view node) const;

  // Marks that only ever go forward.
  void OnReady(absl::string_view node, const std::string& data_address);
  void OnStarted(absl::string_view node);
  void OnConnected(absl::string_view node);
  // An end with an error, or before `finished` or a stop, adds a cause.
  void OnEnded(absl::string_view node, const v1::RunnerReport::Ended& ended);
  // The process is gone; adds a cause unless it had ended in order.
  void OnGone(absl::string_view node, const v1::NodeMessage::RunnerGone& gone);
  // The daemon is gone, and its runner with it.
  void OnNodeLost(absl::string_view node, const std::string& why);
  void AddCause(int rank, const std::string& reason, const std::string& message,
                const std::string& node, bool retryable);

  // Every runner that is still there has reached at least `state`, and none
  // has ended.
  bool AllReached(v1::RunnerRecord::State state) const;
  bool AllGone() const;
  bool AllEnded() const;
  // Nodes whose runner is not gone.
  std::vector<std::string> Living() const;
  bool broken() const { return record_->causes_size() > 0; }
  // REQUIRES: broken().
  const v1::Cause& FirstCause() const;

  // "n1 (asked), n2 (ready)": who has not reached `state`.
  std::string Missing(v1::RunnerRecord::State state) const;

 private:
  v1::JobRecord* record_;
};

// The node of stage 0, replica 0: its runner leads.
std::string LeaderNode(const v1::Placement& placement);

// Whether a fault with this reason and code is worth another attempt.
bool IsRetryable(absl::string_view reason, int code);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_ATTEMPT_H_
