// Runner is the inside of a pipe-runner that a node daemon has started: it
// takes RunnerCommands from the channel and answers with RunnerReports.
//
//   setup -> Ready, start -> Running -> ... -> Ended;  profile -> Profile
//
// Threads: one for commands, the executors' own. When the daemon's end of the
// channel closes, everything ends.
#ifndef PIPEWORK_DAEMON_RUNNER_RUNNER_H_
#define PIPEWORK_DAEMON_RUNNER_RUNNER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/framing.h"
#include "daemon/runner/attempt.h"
#include "daemon/runner/link_run.h"
#include "proto/node.pb.h"

namespace pipework {

class Runner {
 public:
  struct Options {
    std::string transport = "ucx";
    std::string backend = "cpu";
    absl::Duration stages_period = absl::Milliseconds(500);
    absl::Duration send_limit = absl::Seconds(30);
    absl::Duration peer_timeout = absl::Seconds(60);
    // A measurement of links that is not begun, or not done, ends.
    absl::Duration links_limit = absl::Seconds(10);
  };

  // Borrows `channel` for its life.
  Runner(FrameChannel* channel, Options options);
  ~Runner();

  // Serves the channel to the end of the run. OK: the end was reported; else
  // the daemon is gone or speaks nonsense.
  absl::Status Run();

 private:
  absl::Status Handle(const v1::RunnerCommand& command);
  absl::Status SetUp(const v1::RunnerSetup& setup);
  absl::Status Start(const v1::RunnerCommand::Start& start);
  absl::Status Profile(const v1::RunnerProfile& request);
  absl::Status ListenForLinks(const v1::RunnerLinks& request);
  absl::Status MeasureLinks(const v1::Placement& placement);
  absl::Status SendEnded(const absl::Status& error);
  absl::Status Send(const v1::RunnerReport& report);

  FrameChannel* const channel_;
  const Options options_;
  std::unique_ptr<Attempt> attempt_;
  std::unique_ptr<LinkRun> links_;  // one of the two
  absl::Time links_deadline_ = absl::InfiniteFuture();
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_RUNNER_H_
