// Attempt hosts the executors of one job's attempt on one node: one thread
// each, on the cores of its device. Where stage 0 replica 0 is among them, the
// conductor is here too.
//
//   Create -> data_address -> Connect -> Start -> Wait
//
// Threads: Create to Start from one thread; Stop, Stages and ended from any;
// Wait from one.
#ifndef PIPEWORK_DAEMON_RUNNER_ATTEMPT_H_
#define PIPEWORK_DAEMON_RUNNER_ATTEMPT_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/thread.h"
#include "daemon/data/dataset.h"
#include "daemon/executor/stage_executor.h"
#include "daemon/runner/conductor.h"
#include "daemon/runner/seat_loop.h"
#include "daemon/transport/transport.h"
#include "proto/graph.pb.h"
#include "proto/node.pb.h"

namespace pipework {

class Attempt {
 public:
  struct Options {
    v1::RunnerSetup setup;
    // Takes shards, progress, checkpoints; called from executors' threads, one
    // call at a time.
    std::function<void(const v1::RunnerReport&)> report;

    // What tests replace.
    std::string transport = "ucx";
    std::string backend = "cpu";
    std::function<absl::StatusOr<std::unique_ptr<DataPlane>>(
        const DataPlaneOptions&)>
        make_plane;  // null: MakeDataPlane(transport, ...)
    DataSets data;   // null: opened where stage 0 is hosted
    bool poison = false;
    bool pin = true;  // threads to the cores of their devices
    absl::Duration peer_timeout = absl::Seconds(60);
    absl::Duration connect_timeout = absl::Seconds(30);
    absl::Duration report_period = absl::Milliseconds(200);
    int log_capacity = 1 << 16;
  };

  // Opens the data, builds the executors of this node's seats, restores them
  // where the run goes on from a checkpoint, opens the data plane. Errors name
  // what does not fit.
  static absl::StatusOr<std::unique_ptr<Attempt>> Create(Options options);

  // Ends the run at once if it has not ended.
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // host:port that peers dial; "" where the transport needs none.
  std::string data_address() const { return plane_->address(); }

  // `placement` has every seat's data address.
  absl::Status Connect(const v1::Placement& placement);

  // Starts the executors' threads. REQUIRES: connected.
  void Start();

  // Ends the run: `now` at once, else after the units in flight and, when
  // `save`, a checkpoint. Without the leader here only `now` does anything.
  void Stop(bool now, bool save, const std::string& reason);

  // Waits until every executor has ended, or until `deadline`; false then.
  bool WaitUntil(absl::Time deadline);
  // How it ended. REQUIRES: it has.
  v1::RunnerReport::Ended Ended() const;
  // WaitUntil for ever, then Ended.
  v1::RunnerReport::Ended Wait();

  // What each executor here measures.
  v1::RunnerReport Stages() const;

  bool leads() const { return conductor_ != nullptr; }
  const std::vector<std::unique_ptr<StageExecutor>>& executors() const {
    return executors_;
  }

 private:
  explicit Attempt(Options options);

  absl::Status Build();
  absl::Status BuildConductor(const v1::Manifest* resume);
  absl::Status Save(SeatId seat, int64_t step,
                    absl::Span<const NamedTensor> tensors);
  void RunSeat(int index);
  void Fail(const absl::Status& status, bool first_cause);
  void Report(const v1::RunnerReport& report);
  absl::Status Interrupted() const;

  Options options_;
  v1::Graph graph_;            // in the order of the plan
  std::vector<SeatId> seats_;  // of this node, in placement order
  std::vector<v1::Device> devices_;
  std::unique_ptr<DataPlane> plane_;
  std::vector<std::unique_ptr<StageExecutor>> executors_;
  std::unique_ptr<Conductor> conductor_;
  std::vector<std::unique_ptr<SeatLoop>> loops_;
  std::vector<Thread> threads_;

  std::mutex report_mutex_;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> finishing_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;           // guarded by mutex_
  absl::Status first_error_;  // guarded by mutex_
  bool first_cause_ = false;  // guarded by mutex_
  bool stopped_now_ = false;  // guarded by mutex_
  std::string stop_reason_;   // guarded by mutex_
};

// stage-2.safetensors
std::string ShardFile(int stage);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_ATTEMPT_H_
