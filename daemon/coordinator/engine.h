// The engine owns every job: it queues them, has them profiled, planned and
// placed, starts their runners, follows them, publishes their checkpoints,
// and ends or recovers them when something breaks.
//
// It is a plain object: no gRPC, no threads, no sleeping. Its owner calls it
// from one thread at a time, and calls Tick() about twenty times a second;
// what takes long goes to EngineHost::Work.
#ifndef PIPEWORK_DAEMON_COORDINATOR_ENGINE_H_
#define PIPEWORK_DAEMON_COORDINATOR_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/coordinator/attempt.h"
#include "daemon/coordinator/board.h"
#include "daemon/coordinator/cluster.h"
#include "daemon/coordinator/job_machine.h"
#include "daemon/coordinator/job_record.pb.h"
#include "daemon/coordinator/job_writer.h"
#include "daemon/coordinator/profile_store.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"
#include "proto/plan.pb.h"

namespace pipework {

// What the engine needs from the process around it.
class EngineHost {
 public:
  virtual ~EngineHost() = default;

  // Puts a message on the way to a node; never waits. A session that is gone
  // swallows it.
  virtual void Send(const std::string& node, uint64_t session,
                    const v1::CoordinatorMessage& message) = 0;
  // Cuts the session: the node has to register again.
  virtual void CloseSession(const std::string& node, uint64_t session) = 0;
  // Runs `job` on another thread, then what it returns on the engine's.
  virtual void Work(std::function<std::function<void()>()> job) = 0;
};

struct EngineOptions {
  std::string state_dir;
  LeaseLimits leases;
  // How long each phase may take before the attempt ends, naming who is late.
  absl::Duration data_limit = absl::Seconds(60);
  absl::Duration profile_limit = absl::Minutes(10);
  // Of each of the two steps of a measurement of links; then constants do.
  absl::Duration links_limit = absl::Seconds(3);
  absl::Duration reserve_limit = absl::Seconds(60);
  absl::Duration start_limit = absl::Seconds(60);
  // After the first sign of a fault, for a closer cause to arrive.
  absl::Duration settle = absl::Milliseconds(300);
  // ... when all that is known is that a peer went away.
  absl::Duration settle_peer_lost = absl::Seconds(4);
  // Runners of an attempt that ends: told to stop, then killed, then given up.
  absl::Duration stop_grace = absl::Seconds(2);
  absl::Duration stop_limit = absl::Seconds(10);
  // For the checkpoint of a job whose node is asked to leave.
  absl::Duration drain_grace = absl::Seconds(8);
  // For the shards of the last checkpoint to arrive.
  absl::Duration upload_limit = absl::Minutes(2);
  // ... of one that was saved on the way to another end.
  absl::Duration late_shards = absl::Seconds(12);
  // For devices to come back before a recovering job is given up.
  absl::Duration recover_limit = absl::Seconds(15);
  absl::Duration ack_period = absl::Milliseconds(200);
  // Jobs that wait at most; more are refused.
  size_t queue_limit = 10000;
};

// A job to make; checked already.
struct NewJob {
  v1::CreateJobRequest request;
  std::string request_hash;
  v1::Graph graph;
  v1::DataFacts facts;
  std::vector<std::string> data_nodes;
  std::string id;           // from NewJobId
  std::string from_folder;  // within the state folder; empty: from scratch
  int64_t total_steps = 0;
};

// What the nodes say of a job's data.
struct DataAnswer {
  std::vector<std::string> asked;  // READY nodes
  std::vector<std::string> nodes;  // ... that have it whole
  v1::DataFacts facts;             // of nodes[0]
  // What the others said, one line each.
  std::vector<std::string> refusals;
};

class Engine {
 public:
  Engine(EngineOptions options, const Clock& clock,
         std::unique_ptr<JobWriter> writer, EngineHost* host, JobBoard* board);
  ~Engine();

  // Takes up what the store holds. Once, before anything else.
  absl::Status Load();

  // ---- requests ----

  // Asks every READY node; `done` comes from a later call into the engine.
  void AskData(const v1::JobSpec& spec,
               std::function<void(const DataAnswer&)> done);
  // The job that this request made before. AlreadyExists: the id belongs to
  // another request.
  absl::StatusOr<std::shared_ptr<const v1::Job>> FindRequest(
      const std::string& request_id, const std::string& hash);
  // Durable when it returns. As FindRequest where the request was here before.
  absl::StatusOr<v1::Job> Create(NewJob job);
  // Idempotent; the job's state is CANCELLING or an end. NotFound: no such
  // job. Durable when it returns.
  absl::StatusOr<v1::Job> Cancel(const v1::CancelJobRequest& request);

  // What was measured of a graph, one for each kind of device in the cluster
  // as it stands, in the order of the devices; empty where a kind is missing.
  // Devices that any job owns count too.
  std::vector<v1::Profile> KnownProfiles(const v1::JobSpec& spec,
                                         const v1::Graph& graph) const;
  // Measures a graph on a free device of each kind (of one, where it is named)
  // and the links that are not known yet; what was measured before is found,
  // unless `again`. `done` comes from this call or a later one into the engine.
  // FailedPrecondition: no node, or a kind whose devices are all taken.
  // NotFound: no such kind. Unavailable: a node's problem.
  void RunProfile(
      const v1::JobSpec& spec, const v1::Graph& graph,
      const std::string& device_kind, bool again,
      std::function<void(absl::StatusOr<v1::RunProfileResponse>)> done);
  v1::Topology WholeTopology() const { return cluster_.Whole(); }
  bool HasJob(const std::string& id) const { return jobs_.count(id) > 0; }

  // ---- nodes ----

  struct Session {
    uint64_t id = 0;
    v1::CoordinatorMessage::Welcome welcome;
  };
  // After the welcome was sent call SessionOpen, which sends what is due.
  absl::StatusOr<Session> OnHello(const v1::Hello& hello, absl::Time at);
  void SessionOpen(const std::string& node, uint64_t session);
  // `at`: when the message came off the wire.
  void OnMessage(const std::string& node, uint64_t session,
                 const v1::NodeMessage& message, absl::Time at);
  void OnClosed(const std::string& node, uint64_t session);

  // ---- shards ----

  // The folder to write a shard file into. FailedPrecondition: the attempt is
  // not in force (any more).
  absl::StatusOr<std::string> BeginShard(const std::string& job, int attempt,
                                         int64_t step, const v1::Shard& shard);
  // The file is whole and on the disk.
  absl::Status ShardStored(const std::string& job, int attempt, int64_t step,
                           const v1::Shard& shard);
  // This machine could not store it, as when its disk is full.
  void ShardRefused(const std::string& job, int attempt, int64_t step,
                    const absl::Status& why);

  // ---- time ----

  // Wants to be called all the time. Time in which it was not, because this
  // process was stopped or a disk stood still, counts for no lease and no
  // deadline: nobody could be heard.
  void Tick();

 private:
  // A checkpoint on its way: shards from the nodes, manifest from the leader.
  struct Upload {
    std::string partial;
    std::map<std::string, v1::Shard> shards;  // by file name
    bool has_manifest = false;
    v1::Manifest manifest;
    bool publishing = false;
    std::string problem;  // why a shard could not be stored, told once
  };
  // How far the preparation of an attempt is: data, graph, profiles, plan.
  struct Preparation {
    absl::Time deadline;
    std::string step;  // for the message of a timeout
    DataAnswer data;
    v1::Topology topology;  // free for this job
    std::vector<v1::Profile> profiles;
    absl::Time profile_started;
    std::string problem;
    bool retryable = true;
  };
  struct Entry {
    v1::Job job;
    v1::JobRecord record;
    Attempt attempt{&record};
    bool dirty = false;                // differs from what is stored
    bool publish = false;              // differs from what hangs on the board
    bool stored = false;               // has a row
    std::vector<v1::JobEvent> events;  // not stored yet
    std::vector<v1::JobEvent> board_events;    // not on the board yet
    std::vector<v1::StepMetrics> board_steps;  // not on the board yet
    int64_t last_step = -1;  // newest step of this attempt, to drop repeats
    std::map<std::string, v1::StageMetrics> stages;  // by "stage.replica"
    std::map<std::string, absl::Time> stages_heard;
    std::unique_ptr<Preparation> preparation;
    int64_t serial = 0;       // of the preparation, to drop late answers
    int64_t refused_at = -1;  // cluster_version_ when no plan fitted
    absl::Time phase_deadline = absl::InfiniteFuture();
    absl::Time broken_at = absl::InfiniteFuture();
    absl::Time ending_at = absl::InfiniteFuture();
    absl::Time kill_at = absl::InfiniteFuture();
    absl::Time recovering_since = absl::InfiniteFuture();
    bool killed = false;
    std::map<int64_t, Upload> uploads;  // by step
    // What was sent in this life of the coordinator.
    std::set<std::string> setup_sent;
    std::set<std::string> start_sent;
    // Profile commands that are not answered; their devices stay owned.
    std::set<int64_t> profiling;
  };
  struct Command {
    std::string node;
    v1::CoordinatorMessage message;
    absl::Time deadline;
    std::function<void(const v1::NodeMessage::Answer&)> on_answer;
  };

  struct Measuring;
  struct LinkTest;
  struct ProfileAsk {
    std::string node;
    v1::Device device;
    bool second = false;  // the first one was noisy
  };

  // engine.cc
  Entry* Find(const std::string& id);
  Entry* Find(const v1::RunnerRef& runner);
  bool Move(Entry& entry, JobTrigger trigger, const std::string& reason,
            const std::string& message);
  void SetReason(Entry& entry, const std::string& reason,
                 const std::string& message);
  void AddEvent(Entry& entry, const std::string& type, const std::string& text);
  void Forgive(absl::Duration nap);
  void AppendLog(Entry& entry, std::vector<v1::LogLine> lines);
  void Changed(Entry& entry);
  absl::Status Commit(const std::optional<StoredRequest>& request);
  void PublishBoard();
  double Now() const;

  // engine_nodes.cc
  int64_t SendCommand(
      const std::string& node, v1::CoordinatorMessage message,
      absl::Duration limit,
      std::function<void(const v1::NodeMessage::Answer&)> on_answer);
  void AnswerCommand(int64_t id, const v1::NodeMessage::Answer& answer);
  void FailCommands(const std::string& node, const std::string& why);
  void OnReport(const std::string& node, int64_t sequence,
                const v1::NodeMessage::FromRunner& report);
  void OnProgress(Entry& entry, const v1::RunnerReport::Progress& progress);
  void OnNodeLost(const std::string& node, const std::string& why);
  void OnLeaving(const std::string& node, const std::string& why);
  void SendRunner(const std::string& job, int attempt, const std::string& node,
                  const v1::RunnerCommand& command);
  void SendKill(const std::string& job, int attempt, const std::string& node,
                const std::string& reason);

  // engine_prepare.cc
  void Schedule();
  void Admit(Entry& entry, v1::Topology free);
  void OnData(Entry& entry, const DataAnswer& data);
  void OnProfiles(Entry& entry);
  void OnPlan(Entry& entry, const absl::StatusOr<v1::Plan>& plan,
              const absl::Status& whole,
              const absl::StatusOr<v1::Placement>& placement,
              const absl::StatusOr<v1::Manifest>& resume,
              const std::string& resume_folder,
              const std::vector<std::string>& bad_checkpoints);
  void GiveUpPreparation(Entry& entry, const std::string& reason,
                         const std::string& message, bool wait);
  void SendSetup(Entry& entry, const std::string& node);
  v1::RunnerSetup SetupFor(const Entry& entry, const std::string& node) const;

  // engine_profile.cc
  void AskProfiles(Entry& entry);
  void Measure(std::shared_ptr<Measuring> measuring);
  void GoOnMeasuring(std::shared_ptr<Measuring> measuring);
  void AskProfile(std::shared_ptr<Measuring> measuring, const ProfileAsk& ask);
  void OnProfile(Measuring& measuring, const ProfileAsk& ask,
                 const v1::NodeMessage::Answer& answer);
  static std::string KeyOf(const Measuring& measuring, const std::string& kind);
  static std::vector<v1::Profile> ProfilesOf(const Measuring& measuring);

  // engine_links.cc
  // false: nothing to measure, and `done` is not called.
  bool MeasureLinks(const v1::Topology& topology, std::function<void()> done);
  void OnLinksListen(std::shared_ptr<LinkTest> test);
  void EndLinkTest(const LinkTest& test);

  // engine_attempt.cc
  void AfterRunnerChange(Entry& entry);
  void BeginEnding(Entry& entry, v1::JobState next, const std::string& reason,
                   const std::string& message, absl::Duration grace);
  void TendAttempt(Entry& entry);
  void TendEnding(Entry& entry);
  void Conclude(Entry& entry);
  void FinishAttemptRecord(Entry& entry);
  void TryPublish(Entry& entry, int64_t step);
  // Tells the user; the run goes on with the checkpoints that it has.
  void CheckpointFailed(Entry& entry, int64_t step, const std::string& problem);
  std::string UploadFolder(const Entry& entry, int64_t step) const;
  void RestoreUploads(Entry& entry);

  const EngineOptions options_;
  const Clock& clock_;
  std::unique_ptr<JobWriter> writer_;
  EngineHost* const host_;
  JobBoard* const board_;
  const ProfileStore profiles_;
  Cluster cluster_;
  // Grows when a node or the owner of a device changes.
  int64_t cluster_version_ = 0;
  int64_t told_version_ = -1;                 // that the board has
  std::map<std::string, uint64_t> sessions_;  // of each node

  std::map<std::string, std::unique_ptr<Entry>> jobs_;
  // Ids of the jobs that are not over, or whose end is not told yet; oldest
  // first. What happens often looks at these only.
  std::vector<std::string> active_;

  std::map<std::string, NodeAck> acks_;     // durable
  std::map<std::string, NodeAck> handled_;  // not below acks_
  std::map<int64_t, Command> commands_;
  std::shared_ptr<LinkTest> link_test_;  // the one that runs
  std::vector<std::function<void()>> links_waiting_;
  absl::Time links_retry_at_ = absl::InfinitePast();
  int64_t next_command_ = 0;
  int64_t end_command_ = 0;
  absl::Time next_ack_;
  absl::Time last_tick_ = absl::InfiniteFuture();
  absl::Time next_nodes_;
  bool broken_store_ = false;
};

// j- and six letters or digits, unlikely to be anybody else's.
std::string NewJobId();

// Devices that a spec asks for at least.
int LeastDevices(const v1::JobSpec& spec);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_ENGINE_H_
