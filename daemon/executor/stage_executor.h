// StageExecutor runs one stage replica on one device: it walks the row of a
// compiled program, one branch for each kind of action. It decides nothing:
// the program says what comes next, the versioning policy which weights are
// kept, the leader which segment is run.
//
// Memory:  weights as WeightStore, activations as ActivationStore says; one
//          set of gradients; optimizer state once.
// Threads: Create, Restore and the Run calls from one thread at a time;
//          FillMetrics and the operation log's Snapshot from any.
#ifndef PIPEWORK_DAEMON_EXECUTOR_STAGE_EXECUTOR_H_
#define PIPEWORK_DAEMON_EXECUTOR_STAGE_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/data/dataset.h"
#include "daemon/executor/activation_store.h"
#include "daemon/executor/break_mode.h"
#include "daemon/executor/courier.h"
#include "daemon/executor/data_feed.h"
#include "daemon/executor/executor_metrics.h"
#include "daemon/executor/layer_runner.h"
#include "daemon/executor/operation_log.h"
#include "daemon/executor/replica_group.h"
#include "daemon/executor/run_facts.h"
#include "daemon/executor/stage_builder.h"
#include "daemon/executor/weight_store.h"
#include "kernels/backend.h"
#include "kernels/optimizers/optimizer.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "scheduler/program.h"

namespace pipework {

class Policy;

// What the loss stage says of each unit.
struct LossRecord {
  bool evaluation = false;
  int64_t unit = 0;
  int64_t minibatch = 0;
  double loss_sum = 0;
  int64_t right = 0;
  int64_t samples = 0;
  double at_seconds = 0;  // of the clock of the one who says it
};

// Updates that the stage whose first layer is `first_layer` goes on from: those
// of the stage of the checkpoint that has that layer.
int64_t UpdatesOf(const v1::Manifest& manifest, int first_layer);

class StageExecutor {
 public:
  struct Options {
    std::string job;     // for errors
    std::string device;  // n1/cpu:0
    SeatId seat;
    v1::JobSpec spec;
    v1::Graph graph;
    v1::Plan plan;
    int64_t train_samples = 0;
    int64_t test_samples = 0;
    DataSets data;                // read by stage 0 only
    std::string backend = "cpu";  // name in the back-end registry
    int64_t memory_limit_bytes = 0;
    bool poison = false;  // released buffers become NaN (tests)
    BreakMode break_mode = BreakMode::kNone;
    int log_capacity = 1 << 16;
    // Longest wait within a segment; ten times that between segments.
    absl::Duration peer_timeout = absl::Seconds(60);
  };

  struct Hooks {
    // Takes what the loss stage has to say; called for each unit there.
    std::function<absl::Status(const LossRecord&)> loss;
    // Called after each action; the leader looks after its peers in it.
    std::function<absl::Status()> between;
    // Writes this stage's part of the checkpoint of `step`; called on replica
    // 0 only. The tensors may not be written, and are valid within the call.
    std::function<absl::Status(int64_t step, absl::Span<const NamedTensor>)>
        save;
  };

  struct Outcome {
    // Minibatches trained when the segment ended: its end, or where it was
    // stopped.
    int64_t step = 0;
    // Updates made by this stage through the run.
    int64_t version = 0;
    // What S came to; OK where there was none.
    absl::Status saved;
    // Seconds at which the backwards of this seat ended, by the monotonic
    // clock; the first `fill` and the last `drain` of them are no steady state.
    std::vector<double> backward_ends;
    int fill = 0;
    int drain = 0;
    bool flushes = false;  // nothing is in flight at an update
  };

  // Builds the stage. Errors: see BuildStage, MakeBackend, MakeOptimizer;
  // FailedPrecondition: stage 0 has no data.
  static absl::StatusOr<std::unique_ptr<StageExecutor>> Create(Options options);

  StageExecutor(const StageExecutor&) = delete;
  StageExecutor& operator=(const StageExecutor&) = delete;

  // Takes weights, buffers and optimizer state out of a checkpoint, and the
  // count of updates. REQUIRES: nothing has run yet.
  absl::Status Restore(const std::string& folder, const v1::Manifest& manifest);

  // Connects it to its peers; `transport` outlives the executor. Once, before
  // the first Run.
  void Attach(Transport* transport) { courier_.Attach(transport); }

  void SetHooks(Hooks hooks) { hooks_ = std::move(hooks); }

  // Walks the row of this seat. After an error the executor is of no use.
  // Errors name job, stage, replica, peer, operation and minibatch; see Courier
  // for those of waits. OutOfRange: the loss is not finite.
  absl::StatusOr<Outcome> Run(const Program& program);

  Courier& courier() { return courier_; }
  // Unit of the newest forward of the segment in progress; -1: none yet.
  int64_t newest_forward() const { return newest_forward_; }
  const StageLayout& layout() const { return stage_.layout; }
  const RunFacts& facts() const { return facts_; }
  OperationLog& log() { return log_; }
  int64_t version() const { return weights_.newest().value(); }
  const ActivationStore& activations() const { return activations_; }
  const WeightStore& weights() const { return weights_; }

  // Weights, buffers and optimizer state by name, sharing the buffers.
  // REQUIRES: nothing runs.
  std::vector<NamedTensor> NamedTensors() const;

  // All but planned_ms. Any thread.
  void FillMetrics(v1::StageMetrics* out) const;

 private:
  StageExecutor(Options options, GraphInfo info, RunFacts facts,
                std::unique_ptr<Backend> backend,
                std::unique_ptr<Optimizer> optimizer, BuiltStage stage);

  absl::Status Do(const Action& action);
  absl::Status ReceiveForward(const Action& action);
  absl::Status Forward(const Action& action);
  absl::Status SendForward(const Action& action);
  absl::Status ReceiveBackward(const Action& action);
  absl::Status Backward(const Action& action);
  absl::Status SendBackward(const Action& action);
  absl::Status Release(const Action& action);
  absl::Status AllReduce(const Action& action);
  absl::Status Update(const Action& action);
  absl::Status UpdateInWrongOrder(const UpdateContext& context,
                                  const TensorList& old, TensorList& fresh);
  absl::Status Evaluate(const Action& action);
  absl::Status Drain();
  absl::Status Save();

  int64_t StepNow() const;
  bool Skips(int64_t unit) const;
  int64_t NumberOf(int64_t unit) const;
  InFlight& FlightOf(const Action& action);
  absl::Status ReadData(InFlight& flight);
  absl::Status RunLayers(InFlight& flight, const TensorList& weights,
                         bool training);
  absl::Status SayLoss(const InFlight& flight, const Tensor& loss,
                       bool evaluation);
  absl::Status TakeCredits(int64_t unit);
  // The units of update `number` that are run.
  UnitRange UnitsOf(int64_t number) const;
  void ReportHeld();
  // Adds operation and minibatch to an error of this action.
  absl::Status InContext(const Action& action,
                         const absl::Status& status) const;

  const Options options_;
  const GraphInfo info_;
  const RunFacts facts_;
  const std::string who_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Optimizer> optimizer_;
  BuiltStage stage_;  // its weights have moved to weights_
  WeightStore weights_;
  ActivationStore activations_;
  TensorList gradients_;
  bool gradients_fresh_ = false;  // zeroed for the update in progress
  Courier courier_;
  ReplicaGroup group_;
  OperationLog log_;
  ExecutorMetrics metrics_;
  Hooks hooks_;
  DataFeed feed_;  // of use on stage 0 only
  LayerRunner layers_;
  int64_t drains_ = 0;
  int64_t evaluations_ = 0;

  // Of the segment in progress.
  const Program* program_ = nullptr;
  const Policy* policy_ = nullptr;
  Outcome outcome_;
  int64_t forwards_left_ = 0;
  int64_t newest_forward_ = -1;
  WeightVersion oldest_to_come_;  // after the action in progress

  // --break order: the gradients of the update before.
  TensorList held_back_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_STAGE_EXECUTOR_H_
