// ReportLog keeps what a node has to say until the coordinator has it on its
// disk. Reports get sequence numbers that grow; a new session sends again
// what was not acknowledged. While nobody listens, progress is joined and
// stage metrics are replaced, so memory grows with steps and log lines only.
//
// Threads: any; std::mutex inside, no gRPC.
#ifndef PIPEWORK_DAEMON_NODE_REPORT_LOG_H_
#define PIPEWORK_DAEMON_NODE_REPORT_LOG_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "absl/time/time.h"
#include "proto/node.pb.h"

namespace pipework {

class ReportLog {
 public:
  // The oldest log lines are dropped when more reports than this wait.
  static constexpr size_t kMostReports = 100000;

  // A report that is kept until acknowledged. Its sequence is set here.
  void Add(v1::NodeMessage message);
  // An answer or heartbeat: sent once, in this session or the next.
  void AddOnce(v1::NodeMessage message);

  // A session begins: everything above `acknowledged` is to be sent again.
  void BeginSession(int64_t acknowledged);
  // The session is over: Take returns false until the next one.
  void EndSession();
  // Up to here it is durable at the coordinator.
  void Acknowledge(int64_t sequence);

  // The next message to send; false: none by `deadline`, or no session.
  bool Take(v1::NodeMessage* message, absl::Time deadline);

  // First sequence number that is still kept, or the next one.
  int64_t first_sequence() const;
  // Waits until everything is acknowledged; false at `deadline`.
  bool AwaitEmpty(absl::Time deadline) const;
  size_t size() const;

 private:
  bool Join(v1::NodeMessage& message);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<v1::NodeMessage> once_;
  std::deque<v1::NodeMessage> kept_;  // ascending sequence numbers
  int64_t next_sequence_ = 1;
  int64_t sent_ = 0;       // newest that this session has sent
  int64_t ever_sent_ = 0;  // newest that any session has sent
  bool in_session_ = false;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_NODE_REPORT_LOG_H_
