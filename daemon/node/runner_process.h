// RunnerProcess is one pipe-runner: its process, its channel, its last words.
//
// Threads: one of its own, which reads the channel and calls back. Send and
// Kill from any thread.
#ifndef PIPEWORK_DAEMON_NODE_RUNNER_PROCESS_H_
#define PIPEWORK_DAEMON_NODE_RUNNER_PROCESS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/framing.h"
#include "daemon/base/subprocess.h"
#include "daemon/base/thread.h"
#include "proto/node.pb.h"

namespace pipework {

class RunnerProcess {
 public:
  struct Options {
    std::string program;  // pipe-runner
    std::string who;      // for messages: job j-abc123 attempt 1
    std::string folder;   // working files; made where it is not there
    // Called in order from this object's thread; the second one last, after
    // every report that the runner sent. They must not destroy the object.
    std::function<void(v1::RunnerReport)> on_report;
    std::function<void(int wait_status, const std::string& last_words)> on_gone;
  };

  // Starts it and gives it `first` to do.
  static absl::StatusOr<std::unique_ptr<RunnerProcess>> Start(
      Options options, const v1::RunnerCommand& first);
  // Kills it and waits for the callbacks to end.
  ~RunnerProcess();

  // Unavailable: it is gone. DeadlineExceeded: it does not read.
  absl::Status Send(const v1::RunnerCommand& command);
  void Kill();
  pid_t pid() const { return process_->pid(); }

  // File that its standard output and error go to.
  static std::string OutputFile(const std::string& folder);

 private:
  RunnerProcess() = default;
  void Read();

  Options options_;
  std::unique_ptr<Subprocess> process_;
  std::unique_ptr<FrameChannel> channel_;
  Thread reader_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_NODE_RUNNER_PROCESS_H_
