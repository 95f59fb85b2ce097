// Conductor decides what a run does next and tells the world how it goes. It
// lives with the leader, the executor of stage 0 replica 0; RunPlan has the
// rules, the seat loop carries out what it says.
//
// Threads: the leader's thread makes every call but RequestStop.
#ifndef PIPEWORK_DAEMON_RUNNER_CONDUCTOR_H_
#define PIPEWORK_DAEMON_RUNNER_CONDUCTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/executor/run_facts.h"
#include "daemon/executor/stage_executor.h"
#include "daemon/runner/control_message.h"
#include "daemon/runner/run_plan.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/metrics.pb.h"
#include "proto/node.pb.h"
#include "scheduler/program.h"

namespace pipework {

class Conductor {
 public:
  struct Options {
    RunFacts facts;
    RunRules rules;
    v1::LearningRateSpec learning_rate;
    PipelineShape shape;
    // Of the manifest: all but step, epoch, position, updates and accuracy.
    v1::Manifest manifest;
    // Where the run goes on; unset fields of a fresh run are 0.
    int64_t first_step = 0;
    std::vector<int64_t> first_versions;
    double test_accuracy = -1;  // of the checkpoint it goes on from
    // Takes progress and checkpoints; called from the leader's thread.
    std::function<void(const v1::RunnerReport&)> report;
    absl::Duration report_period = absl::Milliseconds(200);
  };

  explicit Conductor(Options options);

  // ---- any thread ----

  // Ends the run after the units in flight, with a checkpoint when `save`.
  void RequestStop(bool save);

  // ---- between segments ----

  Leg Next();
  // The segment of a leg that runs one.
  Segment SegmentOf(const Leg& leg) const;
  // Everyone has run the leg: what the leader's executor measured, and what
  // each stage's replicas said. Internal: replicas of a stage disagree.
  struct SeatDone {
    SeatId seat;
    SegmentDone done;
  };
  absl::Status Finished(const Leg& leg, const StageExecutor::Outcome& leader,
                        const std::vector<SeatDone>& seats);

  // ---- within a segment ----

  void Begin(const Leg& leg);
  void OnLoss(const LossRecord& record);
  // Whether the leg shall end early, because a stop was asked for or a save is
  // due by time.
  bool WantsStop() const;
  // The first unit that is not run, when the leader's newest forward was of
  // `started` (-1: none yet); kNoStop where the segment ends first.
  int64_t StopUnit(const Program& program, int64_t started) const;
  // Reports what has come, when it is time.
  void Tick();

  // ---- the end ----

  // The newest answer of Next.
  const Leg& end() const { return end_; }
  const RunState& state() const { return state_; }
  double samples_per_second() const;
  // Steady-state milliseconds between two minibatches; 0: not known yet.
  double measured_step_ms() const;
  // What a save that did not work said last; OK: the newest one worked.
  const absl::Status& save_status() const { return save_status_; }

 private:
  struct Pending {
    int units = 0;
    std::map<int64_t, LossRecord> records;  // by unit
  };

  int UnitsOf(int64_t minibatch) const;
  void Complete(int64_t minibatch, const Pending& pending);
  void Measure(const StageExecutor::Outcome& leader);
  void ReportProgress(const v1::EpochMetrics* epoch);
  void FinishEpoch();
  double ElapsedSeconds() const;

  const Options options_;
  RunState state_;
  std::vector<int64_t> versions_;   // of each stage
  std::atomic<int> stop_asked_{0};  // 1: stop, 2: stop and save
  absl::Time saved_at_;
  absl::Status save_status_;

  Leg end_;

  // The leg in progress.
  LegKind leg_ = LegKind::kFinish;
  absl::Time leg_began_;
  int64_t leg_samples_ = 0;

  std::map<int64_t, Pending> pending_;  // by minibatch
  int64_t next_minibatch_ = 0;          // that is to be reported
  double last_at_ = 0;
  std::vector<v1::StepMetrics> steps_;  // to be reported
  absl::Time reported_at_;

  // The epoch in progress.
  double epoch_loss_ = 0;
  int64_t epoch_samples_ = 0;
  double epoch_seconds_ = 0;
  // The evaluation in progress.
  std::map<int64_t, LossRecord> evaluated_;

  std::vector<double> step_seconds_;  // of blocks in steady state
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_CONDUCTOR_H_
