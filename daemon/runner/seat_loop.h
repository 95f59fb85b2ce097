// SeatLoop is the life of one executor: it runs the segments that the leader
// names, compiled here, until the leader says that it is over. The leader's
// own loop asks the conductor for the next leg and gathers what everyone says.
//
// Threads: Run is the body of the executor's thread.
#ifndef PIPEWORK_DAEMON_RUNNER_SEAT_LOOP_H_
#define PIPEWORK_DAEMON_RUNNER_SEAT_LOOP_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/executor/stage_executor.h"
#include "daemon/runner/conductor.h"
#include "scheduler/compile.h"
#include "scheduler/program.h"

namespace pipework {

class SeatLoop {
 public:
  struct Options {
    Recipe recipe;
    PipelineShape shape;
    // Writes this stage's shard; see StageExecutor::Hooks.
    std::function<absl::Status(int64_t step, absl::Span<const NamedTensor>)>
        save;
    // Asked between actions; an error ends the loop with it.
    std::function<absl::Status()> interrupted;
    // Told when the run is over for this seat, before it ends.
    std::function<void()> finishing;
  };

  // Borrows both; `conductor` is null but for the leader.
  SeatLoop(StageExecutor* executor, Conductor* conductor, Options options);

  // Runs to the end. OK: the run is over, as the leader decided.
  absl::Status Run();

 private:
  absl::Status Follow();
  absl::Status Lead();
  absl::StatusOr<StageExecutor::Outcome> RunSegment(const Segment& segment);
  absl::Status FlushLosses();
  absl::Status Between();
  absl::Status TakeControl(SeatId from, bool* done, SegmentDone* what);
  std::vector<SeatId> Others() const;

  StageExecutor* const executor_;
  Conductor* const conductor_;
  const Options options_;
  const SeatId leader_;
  std::vector<SeatId> loss_seats_;  // other than the leader
  std::vector<LossRecord> losses_;  // to be sent
  absl::Time flushed_at_;
  const Program* program_ = nullptr;  // the leader's, in progress
  bool stopping_ = false;             // the leader has stopped this segment
  std::vector<Conductor::SeatDone> early_;  // done before the leader is
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_SEAT_LOOP_H_
