// CoordinatorCore is the coordinator without its server: the engine on its
// thread, the work pool, the board, and a mailbox for each node's session.
// Services call it from any thread. No gRPC.
#ifndef PIPEWORK_DAEMON_COORDINATOR_CORE_H_
#define PIPEWORK_DAEMON_COORDINATOR_CORE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/event_loop.h"
#include "daemon/coordinator/board.h"
#include "daemon/coordinator/engine.h"
#include "daemon/coordinator/profile_store.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"
#include "proto/plan.pb.h"
#include "scheduler/planning/planning.h"

namespace pipework {

// What is on its way to one node. The engine puts, the session's writer takes.
class Mailbox {
 public:
  static constexpr size_t kLimit = 10000;

  // Over kLimit the session is of no use: it is closed.
  void Put(v1::CoordinatorMessage message);
  // The next message; false: closed and empty, or none came by `deadline`.
  bool Take(v1::CoordinatorMessage* message, absl::Time deadline);
  // Nothing more is taken; `on_close` (see below) runs once.
  void Close();
  bool closed() const;
  // Called by Close, or at once when it has happened; nullptr takes it back,
  // and when that returns it runs no more.
  void OnClose(std::function<void()> on_close);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::CoordinatorMessage> messages_;
  bool closed_ = false;
  std::function<void()> on_close_;
};

class CoordinatorCore final : private EngineHost {
 public:
  // Opens the store in options.state_dir and takes up its jobs.
  static absl::StatusOr<std::unique_ptr<CoordinatorCore>> Start(
      EngineOptions options, const Clock& clock);
  ~CoordinatorCore() override;
  // Ends waits, sessions and threads, in this order. Idempotent.
  void Stop();
  // Ends waits and sessions only, so that no call hangs.
  void EndCalls();

  JobBoard& board() { return board_; }
  const std::string& state_dir() const { return state_dir_; }
  const Clock& clock() const { return clock_; }

  // What a spec turned into when it was checked against data and cluster.
  struct Checked {
    v1::Graph graph;
    DataAnswer data;
    v1::Plan plan;            // feasible is false: nothing fits
    absl::Status plan_error;  // why; the plan's error
    int64_t total_steps = 0;
  };
  // All checks of a submit. InvalidArgument: the spec's problems, or its data.
  // `planning`: all but data_nodes, which the check finds. Rivals and
  // alternatives take a while.
  absl::StatusOr<Checked> Check(const v1::JobSpec& spec, bool need_data,
                                PlanningOptions planning, absl::Time deadline);
  // Checks, then stores. FailedPrecondition (INFEASIBLE): it can never fit.
  absl::StatusOr<v1::Job> CreateJob(v1::CreateJobRequest request,
                                    absl::Time deadline);
  absl::StatusOr<v1::Plan> PlanJob(const v1::PlanJobRequest& request,
                                   absl::Time deadline);
  // As Engine::RunProfile, after all checks of a submit.
  absl::StatusOr<v1::RunProfileResponse> RunProfile(
      const v1::RunProfileRequest& request, absl::Time deadline);
  const ProfileStore& profiles() const { return profiles_; }
  absl::StatusOr<v1::Job> CancelJob(const v1::CancelJobRequest& request,
                                    absl::Time deadline);

  // ---- nodes ----

  // Registers; the mailbox gets the welcome first.
  absl::StatusOr<uint64_t> OpenSession(const v1::Hello& hello,
                                       std::shared_ptr<Mailbox> mailbox);
  // Waits while too many messages of all nodes wait for the engine.
  void Deliver(const std::string& node, uint64_t session,
               v1::NodeMessage message);
  void CloseSession(const std::string& node, uint64_t session) override;

  absl::StatusOr<std::string> BeginShard(const std::string& job, int attempt,
                                         int64_t step, const v1::Shard& shard,
                                         absl::Time deadline);
  absl::Status ShardStored(const std::string& job, int attempt, int64_t step,
                           const v1::Shard& shard, absl::Time deadline);
  void ShardRefused(const std::string& job, int attempt, int64_t step,
                    const absl::Status& why, absl::Time deadline);
  // The file of a checkpoint, when `folder` lies within the jobs of the state
  // folder, links resolved. PermissionDenied: it does not.
  absl::StatusOr<std::string> ShardPath(const std::string& folder,
                                        const std::string& file) const;

 private:
  CoordinatorCore(const EngineOptions& options, const Clock& clock);

  // EngineHost.
  void Send(const std::string& node, uint64_t session,
            const v1::CoordinatorMessage& message) override;
  void Work(std::function<std::function<void()>()> job) override;

  // Copies a checkpoint into the new job's folder; returns the copy.
  // FailedPrecondition: it is of another network than `graph`.
  absl::StatusOr<std::string> ImportCheckpoint(const std::string& from,
                                               const std::string& job,
                                               const v1::Graph& graph);

  const std::string state_dir_;
  const Clock& clock_;
  const ProfileStore profiles_;
  JobBoard board_;
  std::unique_ptr<Engine> engine_;  // the loop's thread only
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Mailbox>> mailboxes_;
  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<EventLoop> loop_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_CORE_H_
