#include "daemon/coordinator/core.h"

#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/paths.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/coordinator/job_store.h"
#include "daemon/coordinator/rpc_error.h"
#include "daemon/coordinator/spec_facts.h"
#include "daemon/coordinator/testing_build.h"
#include "daemon/spec/data_facts.h"
#include "daemon/spec/spec.h"
#include "kernels/layers/graph_shape.h"
#include "openssl/sha.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/planning/planning.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kTickPeriod = absl::Milliseconds(50);
constexpr size_t kMostWaiting = 5000;

std::string HashOf(v1::CreateJobRequest request) {
  request.clear_request_id();
  const std::string bytes = request.SerializeAsString();
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         hash);
  return std::string(reinterpret_cast<const char*>(hash), sizeof hash);
}

v1::Problem MakeProblem(const std::string& file, const std::string& field,
                        const std::string& got, const std::string& expected,
                        const std::string& hint) {
  v1::Problem problem;
  problem.set_file(file);
  problem.set_field(field);
  problem.set_got(got);
  problem.set_expected(expected);
  problem.set_hint(hint);
  return problem;
}

// The planner's "<field>: <got>, expected <wanted>; <what to do>".
v1::Problem PlanProblem(absl::string_view text) {
  constexpr absl::string_view kExpected = ", expected ";
  std::string field = "pipeline";
  const size_t colon = text.find(": ");
  if (absl::StartsWith(text, "pipeline") && colon != text.npos) {
    field = std::string(text.substr(0, colon));
    text.remove_prefix(colon + 2);
  }
  const size_t wanted = text.find(kExpected);
  if (wanted == text.npos) {
    return MakeProblem("", field, std::string(text),
                       "a pipeline that can be planned", "");
  }
  const absl::string_view rest = text.substr(wanted + kExpected.size());
  const size_t hint = rest.find("; ");
  return MakeProblem(
      "", field, std::string(text.substr(0, wanted)),
      std::string(rest.substr(0, hint)),
      hint == rest.npos ? "" : std::string(rest.substr(hint + 2)));
}

}  // namespace

// ---- Mailbox ----

void Mailbox::Put(v1::CoordinatorMessage message) {
  bool full = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    full = messages_.size() >= kLimit;
    if (!full) messages_.push_back(std::move(message));
    changed_.notify_all();
  }
  if (full) Close();
}

bool Mailbox::Take(v1::CoordinatorMessage* message, absl::Time deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  WaitUntil(changed_, lock, deadline,
            [&] { return closed_ || !messages_.empty(); });
  if (messages_.empty()) return false;
  *message = std::move(messages_.front());
  messages_.pop_front();
  return true;
}

void Mailbox::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return;
  closed_ = true;
  changed_.notify_all();
  if (on_close_) on_close_();
}

bool Mailbox::closed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

void Mailbox::OnClose(std::function<void()> on_close) {
  std::lock_guard<std::mutex> lock(mutex_);
  on_close_ = std::move(on_close);
  if (closed_ && on_close_) on_close_();
}

// ---- CoordinatorCore ----

absl::StatusOr<std::unique_ptr<CoordinatorCore>> CoordinatorCore::Start(
    EngineOptions options, const Clock& clock) {
  std::unique_ptr<CoordinatorCore> core(new CoordinatorCore(options, clock));
  RETURN_IF_ERROR(MakeFolders(options.state_dir));
  ASSIGN_OR_RETURN(std::unique_ptr<JobWriter> writer,
                   JobWriter::Open(options.state_dir));
  core->pool_ = std::make_unique<WorkPool>("work", 2);
  EngineHost* const host = core.get();
  core->engine_ = std::make_unique<Engine>(options, clock, std::move(writer),
                                           host, &core->board_);
  RETURN_IF_ERROR(core->engine_->Load());
  CoordinatorCore* const self = core.get();
  core->loop_ = std::make_unique<EventLoop>("engine", kTickPeriod,
                                            [self] { self->engine_->Tick(); });
  return core;
}

CoordinatorCore::CoordinatorCore(const EngineOptions& options,
                                 const Clock& clock)
    : state_dir_(options.state_dir),
      clock_(clock),
      profiles_(options.state_dir),
      board_(clock) {}

CoordinatorCore::~CoordinatorCore() { Stop(); }

void CoordinatorCore::EndCalls() {
  board_.Close();
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, mailbox] : mailboxes_) mailbox->Close();
}

void CoordinatorCore::Stop() {
  EndCalls();
  if (pool_ != nullptr) pool_->Stop();
  if (loop_ != nullptr) loop_->Stop();
}

void CoordinatorCore::Send(const std::string&, uint64_t session,
                           const v1::CoordinatorMessage& message) {
  std::shared_ptr<Mailbox> mailbox;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = mailboxes_.find(session);
    if (it != mailboxes_.end()) mailbox = it->second;
  }
  if (mailbox != nullptr) mailbox->Put(message);
}

void CoordinatorCore::CloseSession(const std::string& node, uint64_t session) {
  std::shared_ptr<Mailbox> mailbox;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = mailboxes_.find(session);
    if (it == mailboxes_.end()) return;
    mailbox = it->second;
    mailboxes_.erase(it);
  }
  mailbox->Close();
  if (loop_ != nullptr) {
    loop_->Post([this, node, session] { engine_->OnClosed(node, session); });
  }
}

void CoordinatorCore::Work(std::function<std::function<void()>()> job) {
  pool_->Run([this, job = std::move(job)] {
    std::function<void()> then = job();
    if (loop_ != nullptr) loop_->Post(std::move(then));
  });
}

absl::StatusOr<uint64_t> CoordinatorCore::OpenSession(
    const v1::Hello& hello, std::shared_ptr<Mailbox> mailbox) {
  const absl::Time at = clock_.Now();
  return loop_->Call<absl::StatusOr<uint64_t>>(
      at + absl::Seconds(30),
      [this, hello, mailbox, at]() -> absl::StatusOr<uint64_t> {
        ASSIGN_OR_RETURN(Engine::Session session, engine_->OnHello(hello, at));
        v1::CoordinatorMessage welcome;
        *welcome.mutable_welcome() = std::move(session.welcome);
        mailbox->Put(std::move(welcome));
        {
          std::lock_guard<std::mutex> lock(mutex_);
          mailboxes_[session.id] = mailbox;
        }
        engine_->SessionOpen(hello.node(), session.id);
        return session.id;
      });
}

void CoordinatorCore::Deliver(const std::string& node, uint64_t session,
                              v1::NodeMessage message) {
  const absl::Time at = clock_.Now();
  if (loop_->waiting() > kMostWaiting) {
    // The engine is behind: this node's next message waits with this one.
    const absl::Status done = loop_->Call<absl::Status>(
        at + absl::Seconds(30), [this, node, session, message, at] {
          engine_->OnMessage(node, session, message, at);
          return absl::OkStatus();
        });
    (void)done;
    return;
  }
  loop_->Post([this, node, session, message = std::move(message), at] {
    engine_->OnMessage(node, session, message, at);
  });
}

absl::StatusOr<std::string> CoordinatorCore::BeginShard(const std::string& job,
                                                        int attempt,
                                                        int64_t step,
                                                        const v1::Shard& shard,
                                                        absl::Time deadline) {
  return loop_->Call<absl::StatusOr<std::string>>(
      deadline, [this, job, attempt, step, shard] {
        return engine_->BeginShard(job, attempt, step, shard);
      });
}

absl::Status CoordinatorCore::ShardStored(const std::string& job, int attempt,
                                          int64_t step, const v1::Shard& shard,
                                          absl::Time deadline) {
  return loop_->Call<absl::Status>(deadline, [this, job, attempt, step, shard] {
    return engine_->ShardStored(job, attempt, step, shard);
  });
}

void CoordinatorCore::ShardRefused(const std::string& job, int attempt,
                                   int64_t step, const absl::Status& why,
                                   absl::Time deadline) {
  const absl::Status told =
      loop_->Call<absl::Status>(deadline, [this, job, attempt, step, why] {
        engine_->ShardRefused(job, attempt, step, why);
        return absl::OkStatus();
      });
  if (!told.ok()) spdlog::warn("{}", std::string(told.message()));
}

absl::StatusOr<std::string> CoordinatorCore::ShardPath(
    const std::string& folder, const std::string& file) const {
  std::error_code error;
  const fs::path jobs = fs::weakly_canonical(state_dir_ + "/jobs", error);
  const fs::path path = fs::weakly_canonical(fs::path(folder) / file, error);
  const fs::path inside = path.lexically_relative(jobs);
  if (error || file.empty() || file[0] == '.' ||
      file.find('/') != std::string::npos || inside.empty() ||
      *inside.begin() == ".." || inside == ".") {
    return absl::PermissionDeniedError(absl::StrCat(
        "shard \"", file, "\" of ", folder,
        ": lies outside the jobs of this coordinator's state folder"));
  }
  return path.string();
}

// ---- submit ----

absl::StatusOr<CoordinatorCore::Checked> CoordinatorCore::Check(
    const v1::JobSpec& spec, bool need_data, PlanningOptions planning,
    absl::Time deadline) {
  std::vector<v1::Problem> problems = CheckSpec(spec);
  for (const auto& [field, path] :
       {std::pair<const char*, const std::string&>{"data.train.x",
                                                   spec.data().train().x()},
        {"data.train.y", spec.data().train().y()},
        {"data.train.csv", spec.data().train().csv()},
        {"data.train.text", spec.data().train().text()},
        {"data.test.x", spec.data().test().x()},
        {"data.test.y", spec.data().test().y()},
        {"data.test.csv", spec.data().test().csv()},
        {"data.test.text", spec.data().test().text()}}) {
    if (path.empty() || path[0] == '/') continue;
    problems.push_back(MakeProblem(
        "", field, absl::StrCat("\"", path, "\""), "an absolute path",
        "pipectl makes paths absolute; a program of your own must do so too"));
  }
  if (!problems.empty()) return SpecRejected(problems);

  // The data, on every READY node.
  struct Waiting {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    DataAnswer data;
    v1::Topology whole;
  };
  auto waiting = std::make_shared<Waiting>();
  loop_->Post([this, waiting, spec] {
    waiting->whole = engine_->WholeTopology();
    engine_->AskData(spec, [waiting](const DataAnswer& data) {
      std::lock_guard<std::mutex> lock(waiting->mutex);
      waiting->data = data;
      waiting->done = true;
      waiting->changed.notify_all();
    });
  });
  Checked checked;
  v1::Topology whole;
  {
    std::unique_lock<std::mutex> lock(waiting->mutex);
    if (!WaitUntil(waiting->changed, lock, deadline,
                   [&] { return waiting->done; })) {
      return absl::DeadlineExceededError(
          "the nodes did not say in time whether they have the data");
    }
    checked.data = waiting->data;
    whole = waiting->whole;
  }
  if (checked.data.nodes.empty()) {
    if (!checked.data.asked.empty()) {
      std::vector<v1::Problem> missing;
      for (const std::string& refusal : checked.data.refusals) {
        missing.push_back(
            MakeProblem("", "data", refusal, "data that one node has whole",
                        "data.dir names the folder; it is looked for on "
                        "the nodes"));
      }
      return SpecRejected(missing);
    }
    if (need_data) {
      return WithReason(
          absl::FailedPreconditionError(absl::StrCat(
              "the cluster: has no READY node, expected ", LeastDevices(spec),
              " devices; start piped on a machine, or "
              "submit with --wait-for-capacity")),
          "INFEASIBLE");
    }
    return checked;
  }

  const v1::DataFacts& facts = checked.data.facts;
  problems = CheckModel(spec, EndsOf(facts));
  if (!problems.empty()) return SpecRejected(problems);
  auto graph = GraphOf(spec, EndsOf(facts));
  if (!graph.ok()) {
    return SpecRejected(
        {MakeProblem("", "model", std::string(graph.status().message()),
                     "a network that fits its data", "")});
  }
  checked.graph = *std::move(graph);
  problems = CheckAgainstData(spec, checked.graph, facts.train_samples(),
                              facts.test_samples());
  if (!problems.empty()) return SpecRejected(problems);
  checked.total_steps = TotalSteps(spec, facts);

  ASSIGN_OR_RETURN(std::vector<v1::Profile> profiles,
                   loop_->Call<absl::StatusOr<std::vector<v1::Profile>>>(
                       deadline, [this, spec, graph = checked.graph] {
                         return engine_->KnownProfiles(spec, graph);
                       }));
  if (profiles.empty()) {
    ASSIGN_OR_RETURN(v1::Profile estimated,
                     EstimateProfile(checked.graph, UnitSamples(spec)));
    profiles.push_back(std::move(estimated));
  }
  const v1::Profile& profile = profiles.front();
  planning.other_profiles.assign(profiles.begin() + 1, profiles.end());
  planning.data_nodes = checked.data.nodes;
  auto plan = pipework::PlanJob(spec, checked.graph, profile, whole, planning);
  if (plan.ok()) {
    checked.plan = *std::move(plan);
    checked.plan.set_feasible(true);
  } else if (absl::IsFailedPrecondition(plan.status())) {
    checked.plan.set_feasible(false);
    checked.plan.set_reason(std::string(plan.status().message()));
    checked.plan_error = WithReason(plan.status(), "INFEASIBLE");
  } else {
    return SpecRejected({PlanProblem(plan.status().message())});
  }
  return checked;
}

absl::StatusOr<std::string> CoordinatorCore::ImportCheckpoint(
    const std::string& from, const std::string& job, const v1::Graph& graph) {
  std::string folder = from;
  if (from.empty() || from[0] != '/') {
    // JOB (its newest) or JOB/STEP.
    const auto slash = from.rfind('/');
    std::string ref = from;
    std::string step;
    if (slash != std::string::npos && !absl::StartsWith(from, "name/")) {
      ref = from.substr(0, slash);
      step = from.substr(slash + 1);
    }
    ASSIGN_OR_RETURN(const JobSnapshot source, board_.Find(ref, false));
    folder.clear();
    for (const CheckpointEntry& each :
         ListCheckpoints(source->folder() + "/checkpoints")) {
      if (!each.complete) continue;
      if (!step.empty() && absl::StrCat(each.manifest.step()) != step) continue;
      folder = each.folder;
      break;
    }
    if (folder.empty()) {
      return WithReason(absl::NotFoundError(absl::StrCat(
                            "--from ", from, ": job ", source->id(),
                            " has no such complete checkpoint; see pipectl "
                            "checkpoint ls ",
                            source->id())),
                        "CHECKPOINT_NOT_FOUND");
    }
  }
  auto manifest = VerifyCheckpoint(folder);
  if (!manifest.ok()) {
    return WithReason(WithContext("--from", manifest.status()),
                      absl::IsNotFound(manifest.status())
                          ? "CHECKPOINT_NOT_FOUND"
                          : "CHECKPOINT_CORRUPT");
  }
  if (graph.layers_size() > 0 && manifest->graph_hash() != GraphHash(graph)) {
    return WithReason(
        absl::FailedPreconditionError(MismatchText(
            absl::StrCat("--from ", from), "network of the checkpoint",
            absl::StrCat(manifest->graph_hash(), " (job ", manifest->job(),
                         ", step ", manifest->step(), ")"),
            absl::StrCat(GraphHash(graph), ", as the spec has it"),
            "resume with the model and the shape of data that were saved")),
        "CHECKPOINT_MISMATCH");
  }
  // A copy of its own: the source may be removed by its job's retention.
  const std::string to = absl::StrCat(JobFolder(state_dir_, job), "/from/",
                                      CheckpointFolderName(manifest->step()));
  RETURN_IF_ERROR(MakeFolders(FolderOf(to)));
  std::error_code error;
  fs::copy(folder, to, fs::copy_options::recursive, error);
  if (error) return ErrnoStatus("copy the checkpoint to", to, error.value());
  RETURN_IF_ERROR(VerifyCheckpoint(to).status());
  RETURN_IF_ERROR(FsyncFolder(to));
  return to;
}

absl::StatusOr<v1::Job> CoordinatorCore::CreateJob(v1::CreateJobRequest request,
                                                   absl::Time deadline) {
  if (!request.break_mode().empty() && !kTestingBuild) {
    return WithReason(
        absl::UnimplementedError(
            "break_mode: this server was built without --config=testing"),
        "UNIMPLEMENTED");
  }
  const std::string hash = HashOf(request);
  const std::string trouble = board_.Trouble();
  if (!trouble.empty()) {
    return absl::UnavailableError(
        absl::StrCat("nothing can be stored just now: ", trouble));
  }
  if (!request.validate_only() && !request.request_id().empty()) {
    using Known = std::shared_ptr<const v1::Job>;
    ASSIGN_OR_RETURN(const Known known,
                     loop_->Call<absl::StatusOr<Known>>(
                         deadline, [this, id = request.request_id(), hash] {
                           return engine_->FindRequest(id, hash);
                         }));
    if (known != nullptr) return *known;
  }
  PlanningOptions planning;
  planning.rivals = request.validate_only();
  planning.alternatives = request.validate_only() ? 2 : 0;
  ASSIGN_OR_RETURN(Checked checked,
                   Check(request.spec(),
                         /*need_data=*/!request.wait_for_capacity(),
                         std::move(planning), deadline));
  if (!checked.plan_error.ok() && !request.wait_for_capacity()) {
    return checked.plan_error;
  }
  if (request.validate_only()) {
    v1::Job job;
    job.set_name(request.spec().name());
    *job.mutable_spec() = request.spec();
    *job.mutable_plan() = checked.plan;
    job.set_total_steps(checked.total_steps);
    job.set_predicted_step_ms(checked.plan.predicted_step_ms());
    job.set_test_accuracy(-1);
    return job;
  }
  NewJob fresh;
  do {
    fresh.id = NewJobId();
  } while (board_.Find(fresh.id, /*exact=*/true).ok());
  if (!request.from_checkpoint().empty()) {
    ASSIGN_OR_RETURN(
        fresh.from_folder,
        ImportCheckpoint(request.from_checkpoint(), fresh.id, checked.graph));
  }
  fresh.request = std::move(request);
  fresh.request_hash = hash;
  fresh.graph = std::move(checked.graph);
  fresh.facts = checked.data.facts;
  fresh.data_nodes = checked.data.nodes;
  fresh.total_steps = checked.total_steps;
  auto job = loop_->Call<absl::StatusOr<v1::Job>>(
      deadline, [this, fresh] { return engine_->Create(fresh); });
  if (!job.ok() || job->id() != fresh.id) {
    // Another call with the same request id came first, or nothing was stored.
    const absl::Status tidy = RemoveTree(JobFolder(state_dir_, fresh.id));
    if (!tidy.ok()) spdlog::warn("{}", std::string(tidy.message()));
  }
  return job;
}

absl::StatusOr<v1::Plan> CoordinatorCore::PlanJob(
    const v1::PlanJobRequest& request, absl::Time deadline) {
  PlanningOptions planning;
  if (!request.cost_model().empty()) planning.cost_model = request.cost_model();
  planning.alternatives =
      request.alternatives() < 0 ? 2 : std::min(100, request.alternatives());
  planning.explain = request.explain();
  planning.max_stages = std::max(0, request.max_stages());
  planning.straight = request.straight();
  planning.use_fewer_devices = request.use_fewer_devices();
  planning.memory_limit = std::max<int64_t>(0, request.memory_limit());
  ASSIGN_OR_RETURN(Checked checked, Check(request.spec(), /*need_data=*/true,
                                          std::move(planning), deadline));
  return std::move(checked.plan);
}

absl::StatusOr<v1::RunProfileResponse> CoordinatorCore::RunProfile(
    const v1::RunProfileRequest& request, absl::Time deadline) {
  PlanningOptions planning;
  planning.rivals = false;
  ASSIGN_OR_RETURN(
      const Checked checked,
      Check(request.spec(), /*need_data=*/true, std::move(planning), deadline));
  using Answer = absl::StatusOr<v1::RunProfileResponse>;
  struct Waiting {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Answer> answer;
  };
  auto waiting = std::make_shared<Waiting>();
  loop_->Post([this, waiting, request, graph = checked.graph] {
    engine_->RunProfile(request.spec(), graph, request.device_kind(),
                        request.again(), [waiting](Answer answer) {
                          std::lock_guard<std::mutex> lock(waiting->mutex);
                          waiting->answer = std::move(answer);
                          waiting->changed.notify_all();
                        });
  });
  std::unique_lock<std::mutex> lock(waiting->mutex);
  if (!WaitUntil(waiting->changed, lock, deadline,
                 [&] { return waiting->answer.has_value(); })) {
    return absl::DeadlineExceededError(
        "the profile is not done yet; ask again for what is measured by then");
  }
  return *waiting->answer;
}

absl::StatusOr<v1::Job> CoordinatorCore::CancelJob(
    const v1::CancelJobRequest& request, absl::Time deadline) {
  return loop_->Call<absl::StatusOr<v1::Job>>(
      deadline, [this, request] { return engine_->Cancel(request); });
}

}  // namespace pipework
