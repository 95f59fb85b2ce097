#include "daemon/coordinator/engine.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/coordinator/job_store.h"
#include "proto/check.h"
#include "proto/status_macros.h"
#include "proto/text_file.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

constexpr int64_t kCommandBlock = 1000000;
// Ticks come every 50 ms; after so long without one this process stood still.
constexpr absl::Duration kNap = absl::Seconds(2);

// Position of a waiting job, for people.
std::string Ahead(const std::vector<std::string>& ahead) {
  if (ahead.empty()) return "it is first in the queue";
  return absl::StrCat("it is number ", ahead.size() + 1,
                      " in the queue, after ", ahead.back());
}

}  // namespace

std::string NewJobId() {
  static constexpr char kLetters[] = "0123456789abcdefghjkmnpqrstvwxyz";
  std::random_device random;
  std::string id = "j-";
  for (int i = 0; i < 6; ++i) id += kLetters[random() % 32];
  return id;
}

int LeastDevices(const v1::JobSpec& spec) {
  if (spec.pipeline().stages_size() == 0) {
    return std::max(1, spec.pipeline().stage_count());
  }
  int devices = 0;
  for (const v1::StageSpec& stage : spec.pipeline().stages()) {
    devices += std::max({1, stage.replicas(), stage.devices_size()});
  }
  return devices;
}

Engine::Engine(EngineOptions options, const Clock& clock,
               std::unique_ptr<JobWriter> writer, EngineHost* host,
               JobBoard* board)
    : options_(std::move(options)),
      clock_(clock),
      writer_(std::move(writer)),
      host_(host),
      board_(board),
      profiles_(options_.state_dir),
      cluster_(options_.leases) {}

Engine::~Engine() = default;

double Engine::Now() const {
  return absl::ToDoubleSeconds(clock_.Now() - absl::UnixEpoch());
}

absl::Status Engine::Load() {
  ASSIGN_OR_RETURN(next_command_, writer_->ReserveCommandIds(kCommandBlock));
  end_command_ = next_command_ + kCommandBlock;
  v1::LinkTable links;
  const absl::Status read =
      ReadTextFile(options_.state_dir + "/links.txt", &links);
  if (read.ok()) {
    cluster_.LoadLinks(links);
  } else if (!absl::IsNotFound(read)) {
    spdlog::warn("links are measured anew: {}", std::string(read.message()));
  }
  ASSIGN_OR_RETURN(acks_, writer_->LoadAcks());
  handled_ = acks_;
  ASSIGN_OR_RETURN(std::vector<JobWriter::StoredJob> stored,
                   writer_->LoadJobs());
  ASSIGN_OR_RETURN(const std::unique_ptr<JobStoreReader> reader,
                   JobStoreReader::Open(options_.state_dir));
  const absl::Time now = clock_.Now();
  for (JobWriter::StoredJob& each : stored) {
    auto entry = std::make_unique<Entry>();
    entry->job = std::move(each.job);
    entry->record = std::move(each.record);
    entry->stored = true;
    entry->publish = true;
    const std::string id = entry->job.id();
    ASSIGN_OR_RETURN(entry->board_events, reader->Events(id));
    if (!IsTerminal(entry->job.state())) {
      ASSIGN_OR_RETURN(entry->board_steps, reader->Steps(id));
      if (!entry->board_steps.empty()) {
        entry->last_step = entry->board_steps.back().step();
      }
      for (const v1::StageMetrics& stage : entry->job.stages()) {
        entry->stages[absl::StrCat(stage.index(), ".", stage.replica())] =
            stage;
      }
      for (const std::string& node : entry->attempt.Living()) {
        const auto ack = acks_.find(node);
        cluster_.Expect(node, ack == acks_.end() ? 0 : ack->second.incarnation,
                        now);
        std::vector<std::string> devices;
        for (const v1::Seat& seat : entry->job.placement().seats()) {
          if (seat.node() != node) continue;
          devices.push_back(absl::StrCat(node, "/", seat.device()));
        }
        cluster_.Own(id, devices);
      }
      RestoreUploads(*entry);
      // What was being measured or planned is begun again.
      if (entry->job.state() == v1::PROFILING) {
        Move(*entry, JobTrigger::kRequeued, "COORDINATOR_RESTARTED",
             "the coordinator was started again; the profile is begun anew");
      }
      if (entry->job.state() == v1::RESERVING) {
        entry->phase_deadline = now + options_.reserve_limit;
      } else if (entry->job.state() == v1::STARTING) {
        entry->phase_deadline = now + options_.start_limit;
      } else if (entry->job.state() == v1::RECOVERING) {
        entry->recovering_since = now;
      }
      if (entry->record.ending() != v1::JOB_STATE_UNSPECIFIED) {
        entry->ending_at = now;
        entry->kill_at = now;
      } else if (entry->attempt.broken()) {
        entry->broken_at = now;
      }
      AddEvent(*entry, "COORDINATOR_RESTARTED",
               absl::StrCat("the coordinator was started again; the job is ",
                            v1::JobState_Name(entry->job.state())));
    }
    active_.push_back(id);
    jobs_[id] = std::move(entry);
  }
  RETURN_IF_ERROR(Commit(std::nullopt));
  PublishBoard();
  return absl::OkStatus();
}

Engine::Entry* Engine::Find(const std::string& id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second.get();
}

// Only the attempt in force counts; what an older one says is dropped.
Engine::Entry* Engine::Find(const v1::RunnerRef& runner) {
  Entry* entry = Find(runner.job());
  if (entry == nullptr || IsTerminal(entry->job.state()) ||
      entry->job.attempt() != runner.attempt()) {
    return nullptr;
  }
  return entry;
}

void Engine::Changed(Entry& entry) {
  entry.job.set_revision(entry.job.revision() + 1);
  entry.dirty = true;
  entry.publish = true;
}

void Engine::AddEvent(Entry& entry, const std::string& type,
                      const std::string& text) {
  v1::JobEvent event;
  entry.record.set_next_event(entry.record.next_event() + 1);
  event.set_revision(entry.record.next_event());
  event.set_at(Now());
  event.set_type(type);
  event.set_text(text);
  entry.events.push_back(event);
  entry.board_events.push_back(event);
  spdlog::info("job {}: {} {}", entry.job.id(), type, text);
  Changed(entry);
  if (type != "FAULT") return;
  // Where people look first.
  v1::LogLine line;
  line.set_attempt(entry.job.attempt());
  line.set_stage(-1);
  line.set_level("error");
  line.set_at(event.at());
  line.set_text(absl::StrCat("first cause: ", text));
  AppendLog(entry, {line});
}

void Engine::AppendLog(Entry& entry, std::vector<v1::LogLine> lines) {
  if (lines.empty()) return;
  const absl::Status status = writer_->AppendLog(entry.job.id(), &lines);
  if (!status.ok()) {
    spdlog::warn("job {}: log lines are lost: {}", entry.job.id(),
                 std::string(status.message()));
  }
}

void Engine::SetReason(Entry& entry, const std::string& reason,
                       const std::string& message) {
  if (entry.job.reason() == reason && entry.job.message() == message) return;
  entry.job.set_reason(reason);
  entry.job.set_message(message);
  if (entry.job.state() != v1::QUEUED) {
    Changed(entry);
    return;
  }
  // Told, but not stored: the whole queue moves up whenever a job ends.
  entry.job.set_revision(entry.job.revision() + 1);
  entry.publish = true;
}

bool Engine::Move(Entry& entry, JobTrigger trigger, const std::string& reason,
                  const std::string& message) {
  const auto next = NextJobState(entry.job.state(), trigger);
  if (!next.has_value()) {
    spdlog::error("job {}: \"{}\" does not go with state {}", entry.job.id(),
                  JobTriggerName(trigger),
                  v1::JobState_Name(entry.job.state()));
    return false;
  }
  entry.job.set_state(*next);
  entry.job.set_reason(reason);
  entry.job.set_message(message);
  if (*next != v1::RUNNING) entry.job.set_phase(v1::TRAINING);
  entry.phase_deadline = absl::InfiniteFuture();
  if (IsTerminal(*next)) {
    entry.job.set_ended_at(Now());
    entry.job.set_wall_seconds(entry.job.ended_at() - entry.job.created_at());
    entry.job.set_eta_seconds(*next == v1::SUCCEEDED ? 0 : -1);
    cluster_.ReleaseAll(entry.job.id());
    ++cluster_version_;
    writer_->CloseFiles(entry.job.id());
  }
  AddEvent(entry, "STATE",
           absl::StrCat(v1::JobState_Name(*next),
                        reason.empty() ? "" : absl::StrCat(" (", reason, ")"),
                        message.empty() ? "" : ": ", message));
  return true;
}

absl::Status Engine::Commit(const std::optional<StoredRequest>& request) {
  std::vector<JobChange> changes;
  for (const std::string& id : active_) {
    Entry& entry = *jobs_.at(id);
    if (!entry.dirty) continue;
    changes.push_back({&entry.job, &entry.record, entry.events});
  }
  std::map<std::string, NodeAck> acks;
  for (const auto& [node, ack] : handled_) {
    const NodeAck& old = acks_[node];
    if (old.incarnation != ack.incarnation || old.sequence != ack.sequence) {
      acks[node] = ack;
    }
  }
  if (changes.empty() && acks.empty() && !request.has_value()) {
    return absl::OkStatus();
  }
  const absl::Status status =
      writer_->Commit(changes, acks, request, clock_.Now());
  if (!status.ok()) {
    if (!broken_store_) {
      spdlog::error("nothing can be stored: {}", std::string(status.message()));
    }
    broken_store_ = true;
    board_->SetTrouble(std::string(status.message()));
    return status;
  }
  if (broken_store_) spdlog::info("storing works again");
  broken_store_ = false;
  board_->SetTrouble("");
  for (const JobChange& change : changes) {
    Entry& entry = *jobs_.at(change.job->id());
    entry.dirty = false;
    entry.stored = true;
    entry.events.clear();
  }
  for (const auto& [node, ack] : acks) {
    acks_[node] = ack;
    const auto session = sessions_.find(node);
    if (session == sessions_.end()) continue;
    v1::CoordinatorMessage message;
    message.set_acknowledged(ack.sequence);
    message.set_heartbeat(true);
    host_->Send(node, session->second, message);
  }
  return absl::OkStatus();
}

void Engine::PublishBoard() {
  for (const std::string& id : active_) {
    Entry& entry = *jobs_.at(id);
    // A change of state shows once it is durable; progress shows at once.
    if (!entry.publish || !entry.events.empty() || !entry.stored) continue;
    auto job = std::make_shared<v1::Job>(entry.job);
    if (!IsTerminal(job->state())) {
      job->set_wall_seconds(Now() - job->created_at());
      for (v1::StageMetrics& stage : *job->mutable_stages()) {
        const auto heard = entry.stages_heard.find(
            absl::StrCat(stage.index(), ".", stage.replica()));
        if (heard == entry.stages_heard.end()) continue;
        stage.set_heard_seconds_ago(
            absl::ToDoubleSeconds(clock_.Now() - heard->second));
      }
    }
    board_->Put(std::move(job), entry.board_steps, entry.board_events);
    entry.board_steps.clear();
    entry.board_events.clear();
    entry.publish = false;
  }
}

// ---- requests ----

absl::StatusOr<std::shared_ptr<const v1::Job>> Engine::FindRequest(
    const std::string& request_id, const std::string& hash) {
  std::shared_ptr<const v1::Job> none;
  if (request_id.empty()) return none;
  ASSIGN_OR_RETURN(const std::optional<StoredRequest> stored,
                   writer_->FindRequest(request_id, clock_.Now()));
  if (!stored.has_value()) return none;
  if (stored->hash != hash) {
    return absl::AlreadyExistsError(
        absl::StrCat("request id ", request_id,
                     ": belongs to another request, which made job ",
                     stored->job, "; use a new id for a new request"));
  }
  const Entry* entry = Find(stored->job);
  PIPE_CHECK(entry != nullptr);
  return std::make_shared<const v1::Job>(entry->job);
}

absl::StatusOr<v1::Job> Engine::Create(NewJob fresh) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const v1::Job> known,
                   FindRequest(fresh.request.request_id(), fresh.request_hash));
  if (known != nullptr) return *known;
  PIPE_CHECK(jobs_.count(fresh.id) == 0);
  if (active_.size() >= options_.queue_limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the queue: holds ", active_.size(), " jobs, expected fewer than ",
        options_.queue_limit, "; submit again when some have ended"));
  }
  auto entry = std::make_unique<Entry>();
  v1::Job& job = entry->job;
  job.set_id(fresh.id);
  job.set_name(fresh.request.spec().name());
  *job.mutable_spec() = fresh.request.spec();
  job.set_state(v1::QUEUED);
  job.set_attempt(1);
  job.set_test_accuracy(-1);
  job.set_eta_seconds(-1);
  job.set_total_steps(fresh.total_steps);
  job.set_created_at(Now());
  job.set_folder(JobFolder(options_.state_dir, fresh.id));
  std::vector<std::string> ahead;
  for (const std::string& id : active_) {
    if (!IsTerminal(jobs_.at(id)->job.state()) &&
        !HasRunners(jobs_.at(id)->job.state())) {
      ahead.push_back(id);
    }
  }
  job.set_reason(ahead.empty() ? "STARTING_SOON" : "QUEUED_BEHIND");
  job.set_message(Ahead(ahead));
  v1::JobRecord& record = entry->record;
  *record.mutable_graph() = std::move(fresh.graph);
  *record.mutable_facts() = fresh.facts;
  for (const std::string& node : fresh.data_nodes) record.add_data_nodes(node);
  record.set_from_folder(fresh.from_folder);
  record.set_wait_for_capacity(fresh.request.wait_for_capacity());
  record.set_request_id(fresh.request.request_id());
  record.set_spec_file(fresh.request.spec_file());
  record.set_write_operation_log(fresh.request.write_operation_log());
  record.set_break_mode(fresh.request.break_mode());
  record.set_announced_step(-1);

  Entry& kept = *entry;
  jobs_[fresh.id] = std::move(entry);
  active_.push_back(fresh.id);
  AddEvent(kept, "STATE", absl::StrCat("QUEUED: ", job.message()));
  std::optional<StoredRequest> request;
  if (!fresh.request.request_id().empty()) {
    request =
        StoredRequest{fresh.request.request_id(), fresh.request_hash, fresh.id};
  }
  const absl::Status status = Commit(request);
  if (!status.ok()) {
    // Nothing is stored, so there is no such job.
    active_.pop_back();
    jobs_.erase(fresh.id);
    return status;
  }
  const v1::Job answer = kept.job;
  PublishBoard();
  return answer;
}

absl::StatusOr<v1::Job> Engine::Cancel(const v1::CancelJobRequest& request) {
  ASSIGN_OR_RETURN(const JobSnapshot named,
                   board_->Find(request.job(), /*exact=*/true));
  Entry& entry = *Find(named->id());
  const double grace =
      request.grace_seconds() > 0 ? request.grace_seconds() : 10;
  const std::string why =
      request.reason().empty() ? "asked for by a user" : request.reason();
  const v1::JobState state = entry.job.state();
  if (!IsTerminal(state) && state != v1::CANCELLING) {
    const bool save = state == v1::RUNNING && !request.now() &&
                      entry.record.ending() == v1::JOB_STATE_UNSPECIFIED;
    Move(entry, JobTrigger::kCancelAsked, "CANCELLED", why);
    ++entry.serial;  // late answers of a preparation no longer count
    entry.preparation.reset();
    BeginEnding(
        entry, v1::CANCELLED, "CANCELLED", why,
        save ? absl::Seconds(std::min(grace, 3600.0)) : absl::ZeroDuration());
    TendEnding(entry);
  } else if (state == v1::CANCELLING && request.now()) {
    entry.kill_at = std::min(entry.kill_at, clock_.Now());
    TendEnding(entry);
  }
  RETURN_IF_ERROR(Commit(std::nullopt));
  PublishBoard();
  return entry.job;
}

// ---- time ----

void Engine::Forgive(absl::Duration nap) {
  const absl::Time now = clock_.Now();
  const auto later = [nap, now](absl::Time* since) {
    *since = std::min(*since + nap, now);
  };
  cluster_.Forgive(nap, now);
  for (auto& [id, command] : commands_) command.deadline += nap;
  for (const std::string& id : active_) {
    Entry& entry = *jobs_.at(id);
    entry.phase_deadline += nap;
    entry.kill_at += nap;
    if (entry.preparation != nullptr) entry.preparation->deadline += nap;
    for (absl::Time* since :
         {&entry.broken_at, &entry.ending_at, &entry.recovering_since}) {
      if (*since != absl::InfiniteFuture()) later(since);
    }
  }
}

void Engine::Tick() {
  const absl::Time now = clock_.Now();
  if (now - last_tick_ > kNap) {
    spdlog::warn("nothing was heard for {}: this process did not run",
                 absl::FormatDuration(now - last_tick_));
    Forgive(now - last_tick_);
  }
  last_tick_ = now;
  for (const Cluster::LostNode& lost : cluster_.Tick(now)) {
    if (lost.session != 0) host_->CloseSession(lost.node, lost.session);
    OnNodeLost(lost.node, lost.why);
  }
  std::vector<int64_t> late;
  for (const auto& [id, command] : commands_) {
    if (now >= command.deadline) late.push_back(id);
  }
  for (int64_t id : late) {
    v1::NodeMessage::Answer answer;
    answer.set_command(id);
    answer.set_code(static_cast<int>(absl::StatusCode::kDeadlineExceeded));
    answer.set_message("no answer came in time");
    AnswerCommand(id, answer);
  }
  for (const std::string& id : active_) {
    Entry& entry = *jobs_.at(id);
    if (!IsTerminal(entry.job.state())) TendAttempt(entry);
  }
  Schedule();

  bool urgent = false;
  for (const std::string& id : active_) {
    urgent = urgent || !jobs_.at(id)->events.empty();
  }
  if (urgent || now >= next_ack_) {
    next_ack_ = now + options_.ack_period;
    // An error is told by Commit; the next Tick tries again.
    if (Commit(std::nullopt).ok() && urgent) {
      // What the new states promise is sent now.
      for (const std::string& id : active_) {
        Entry& entry = *jobs_.at(id);
        if (HasRunners(entry.job.state())) TendAttempt(entry);
      }
    }
  }
  if (now >= next_nodes_ || told_version_ != cluster_version_) {
    told_version_ = cluster_version_;
    next_nodes_ = now + absl::Milliseconds(500);
    // Ages grow though nothing is heard.
    for (const std::string& id : active_) {
      if (!IsTerminal(jobs_.at(id)->job.state())) jobs_.at(id)->publish = true;
    }
    board_->PutNodes(cluster_.Describe(now));
  }
  PublishBoard();
  active_.erase(std::remove_if(active_.begin(), active_.end(),
                               [this](const std::string& id) {
                                 const Entry& entry = *jobs_.at(id);
                                 return IsTerminal(entry.job.state()) &&
                                        !entry.dirty && !entry.publish;
                               }),
                active_.end());
}

}  // namespace pipework
