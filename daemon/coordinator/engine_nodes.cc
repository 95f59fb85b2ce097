// The engine's side that talks to nodes: sessions, commands, reports.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/coordinator/engine.h"
#include "proto/check.h"
#include "proto/status_macros.h"
#include "spdlog/spdlog.h"

namespace pipework {

using R = v1::RunnerRecord;

// ---- commands ----

int64_t Engine::SendCommand(
    const std::string& node, v1::CoordinatorMessage message,
    absl::Duration limit,
    std::function<void(const v1::NodeMessage::Answer&)> on_answer) {
  PIPE_CHECK(next_command_ < end_command_);
  const int64_t id = next_command_++;
  message.set_command(id);
  const auto session = sessions_.find(node);
  if (session != sessions_.end()) {
    host_->Send(node, session->second, message);
  }
  commands_[id] = {node, std::move(message), clock_.Now() + limit,
                   std::move(on_answer)};
  return id;
}

void Engine::AnswerCommand(int64_t id, const v1::NodeMessage::Answer& answer) {
  const auto it = commands_.find(id);
  if (it == commands_.end()) return;
  const auto on_answer = std::move(it->second.on_answer);
  commands_.erase(it);
  if (on_answer) on_answer(answer);
}

void Engine::FailCommands(const std::string& node, const std::string& why) {
  std::vector<int64_t> ids;
  for (const auto& [id, command] : commands_) {
    if (command.node == node) ids.push_back(id);
  }
  for (int64_t id : ids) {
    v1::NodeMessage::Answer answer;
    answer.set_command(id);
    answer.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
    answer.set_message(why);
    AnswerCommand(id, answer);
  }
}

void Engine::SendRunner(const std::string& job, int attempt,
                        const std::string& node,
                        const v1::RunnerCommand& command) {
  v1::CoordinatorMessage message;
  auto* to = message.mutable_to_runner();
  to->mutable_runner()->set_job(job);
  to->mutable_runner()->set_attempt(attempt);
  *to->mutable_command() = command;
  SendCommand(node, std::move(message), absl::Seconds(30), nullptr);
}

void Engine::SendKill(const std::string& job, int attempt,
                      const std::string& node, const std::string& reason) {
  v1::CoordinatorMessage message;
  auto* kill = message.mutable_kill_runner();
  kill->mutable_runner()->set_job(job);
  kill->mutable_runner()->set_attempt(attempt);
  kill->set_reason(reason);
  SendCommand(
      node, std::move(message), absl::Seconds(30),
      [this, job, attempt, node](const v1::NodeMessage::Answer& answer) {
        // A node without this runner will not say that it is gone; it was asked
        // for but never sent, or the node has forgotten the job.
        if (answer.code() != static_cast<int>(absl::StatusCode::kNotFound) ||
            attempt == 0) {
          return;
        }
        v1::RunnerRef ref;
        ref.set_job(job);
        ref.set_attempt(attempt);
        Entry* entry = Find(ref);
        v1::RunnerRecord* runner =
            entry == nullptr ? nullptr : entry->attempt.Find(node);
        if (runner == nullptr) {
          cluster_.ReleaseStranded(job, node);
        } else {
          runner->set_state(R::GONE);
          cluster_.ReleaseOn(job, node);
          Changed(*entry);
        }
        ++cluster_version_;
      });
}

// ---- data ----

void Engine::AskData(const v1::JobSpec& spec,
                     std::function<void(const DataAnswer&)> done) {
  struct Asking {
    DataAnswer answer;
    int waiting = 0;
    std::function<void(const DataAnswer&)> done;
  };
  auto asking = std::make_shared<Asking>();
  asking->done = std::move(done);
  asking->answer.asked = cluster_.ReadyNodes();
  asking->waiting = static_cast<int>(asking->answer.asked.size());
  if (asking->waiting == 0) {
    asking->done(asking->answer);
    return;
  }
  for (const std::string& node : asking->answer.asked) {
    v1::CoordinatorMessage message;
    v1::JobSpec* part = message.mutable_check_data()->mutable_spec();
    *part->mutable_data() = spec.data();
    *part->mutable_batch() = spec.batch();
    part->set_seed(spec.seed());
    SendCommand(
        node, std::move(message), options_.data_limit,
        [asking, node](const v1::NodeMessage::Answer& answer) {
          DataAnswer& all = asking->answer;
          if (answer.code() != 0) {
            all.refusals.push_back(
                absl::StrCat("node ", node, ": ", answer.message()));
          } else if (all.nodes.empty()) {
            all.nodes.push_back(node);
            all.facts = answer.data();
          } else if (answer.data().SerializeAsString() ==
                     all.facts.SerializeAsString()) {
            all.nodes.push_back(node);
          } else {
            all.refusals.push_back(absl::StrCat(
                "node ", node, ": its data has ", answer.data().train_samples(),
                " training and ", answer.data().test_samples(),
                " test samples, another node's has ", all.facts.train_samples(),
                " and ", all.facts.test_samples()));
          }
          if (--asking->waiting == 0) asking->done(all);
        });
  }
}

// ---- sessions ----

absl::StatusOr<Engine::Session> Engine::OnHello(const v1::Hello& hello,
                                                absl::Time at) {
  ASSIGN_OR_RETURN(const Cluster::Registration registration,
                   cluster_.Register(hello, at));
  const std::string& node = hello.node();
  sessions_[node] = registration.session;
  ++cluster_version_;
  if (registration.restarted) {
    OnNodeLost(node, absl::StrCat("node ", node,
                                  ": its daemon was started again, and its "
                                  "runners ended with the one before"));
  }
  NodeAck& handled = handled_[node];
  if (handled.incarnation != hello.incarnation()) {
    handled = {hello.incarnation(), 0};
    acks_[node] = {0, 0};
  }
  // What was handled and is not stored yet is stored with the next commit;
  // the welcome promises only what is durable.
  Session session;
  session.id = registration.session;
  session.welcome.set_acknowledged(
      acks_[node].incarnation == hello.incarnation() ? acks_[node].sequence
                                                     : 0);
  session.welcome.set_heartbeat_seconds(
      absl::ToDoubleSeconds(options_.leases.heartbeat));
  for (const std::string& id : active_) {
    const Entry& entry = *jobs_.at(id);
    const R* runner = entry.attempt.Find(node);
    if (IsTerminal(entry.job.state()) || runner == nullptr ||
        runner->state() == R::GONE) {
      continue;
    }
    v1::RunnerRef* ref = session.welcome.add_runners();
    ref->set_job(id);
    ref->set_attempt(entry.job.attempt());
  }
  // Whatever else runs there is ended by this welcome.
  for (const std::string& owner : cluster_.OwnersOn(node)) {
    const Entry* entry = Find(owner);
    if (entry == nullptr || IsTerminal(entry->job.state())) {
      cluster_.ReleaseOn(owner, node);
    }
  }
  spdlog::info("node {}: registered with {} devices", node,
               hello.devices_size());
  return session;
}

void Engine::SessionOpen(const std::string& node, uint64_t session) {
  // A node does a command once however often it comes.
  for (const auto& [id, command] : commands_) {
    if (command.node == node) host_->Send(node, session, command.message);
  }
  for (const std::string& id : active_) {
    Entry& entry = *jobs_.at(id);
    const R* runner = entry.attempt.Find(node);
    if (IsTerminal(entry.job.state()) || runner == nullptr ||
        runner->state() == R::GONE) {
      continue;
    }
    AddEvent(entry, "NODE_CONNECTED",
             absl::StrCat("node ", node, " is connected (again)"));
  }
}

void Engine::OnClosed(const std::string& node, uint64_t session) {
  const auto it = sessions_.find(node);
  if (it == sessions_.end() || it->second != session) return;
  sessions_.erase(it);
  cluster_.SessionClosed(node, session, clock_.Now());
  ++cluster_version_;
  for (const std::string& id : active_) {
    Entry& entry = *jobs_.at(id);
    const R* runner = entry.attempt.Find(node);
    if (IsTerminal(entry.job.state()) || runner == nullptr ||
        runner->state() == R::GONE) {
      continue;
    }
    AddEvent(entry, "NODE_DISCONNECTED",
             absl::StrCat("node ", node,
                          ": its connection was closed; waiting for it"));
  }
}

void Engine::OnNodeLost(const std::string& node, const std::string& why) {
  spdlog::warn("{}", why);
  ++cluster_version_;
  FailCommands(node, why);
  for (const std::string& id : active_) {
    Entry& entry = *jobs_.at(id);
    if (IsTerminal(entry.job.state())) continue;
    const R* runner = entry.attempt.Find(node);
    const bool hit = runner != nullptr && runner->state() != R::GONE;
    if (hit) {
      AddEvent(entry, "NODE_LOST", why);
      entry.attempt.OnNodeLost(node, why);
      AfterRunnerChange(entry);
    }
  }
  // Nothing of any job runs there any more: a daemon takes its runners along,
  // and one that comes back ends those that its welcome does not list.
  for (const std::string& owner : cluster_.OwnersOn(node)) {
    cluster_.ReleaseOn(owner, node);
  }
}

// A daemon that is asked to stop is no fault: its jobs save what they have and
// go on elsewhere, and no restart is used up.
void Engine::OnLeaving(const std::string& node, const std::string& why) {
  spdlog::info("node {}: leaves: {}", node, why);
  cluster_.SetLeaving(node);
  ++cluster_version_;
  for (const std::string& id : active_) {
    Entry& entry = *jobs_.at(id);
    const R* runner = entry.attempt.Find(node);
    if (!HasRunners(entry.job.state()) || runner == nullptr ||
        runner->state() == R::GONE || entry.record.finished() ||
        entry.record.ending() != v1::JOB_STATE_UNSPECIFIED) {
      continue;
    }
    const std::string text =
        absl::StrCat("node ", node, " leaves (", why,
                     "); the job is saved and goes on on what is left");
    const bool running = entry.job.state() == v1::RUNNING;
    AddEvent(entry, "NODE_LEAVING", text);
    Move(entry, JobTrigger::kFault, "NODE_LEAVING", text);
    BeginEnding(entry, v1::RECOVERING, "NODE_LEAVING", text,
                running ? options_.drain_grace : absl::ZeroDuration());
  }
}

void Engine::OnMessage(const std::string& node, uint64_t session,
                       const v1::NodeMessage& message, absl::Time at) {
  if (!cluster_.Heard(node, session, at)) return;
  if (message.sequence() > 0) {
    NodeAck& handled = handled_[node];
    if (message.sequence() <= handled.sequence) return;  // sent again
    handled.sequence = message.sequence();
  }
  switch (message.body_case()) {
    case v1::NodeMessage::kReport:
      OnReport(node, message.sequence(), message.report());
      break;
    case v1::NodeMessage::kGone: {
      const auto& gone = message.gone();
      const Entry* owner = Find(gone.runner().job());
      if (owner == nullptr || owner->job.attempt() == gone.runner().attempt()) {
        cluster_.ReleaseOn(gone.runner().job(), node);
      } else {
        cluster_.ReleaseStranded(gone.runner().job(), node);
      }
      ++cluster_version_;
      Entry* entry = Find(gone.runner());
      if (entry == nullptr || entry->attempt.Find(node) == nullptr) break;
      // After an orderly end all of it is in the log already.
      if (gone.wait_status() != 0) {
        std::vector<v1::LogLine> lines;
        for (absl::string_view text :
             absl::StrSplit(gone.last_words(), '\n', absl::SkipWhitespace())) {
          v1::LogLine& line = lines.emplace_back();
          line.set_attempt(gone.runner().attempt());
          line.set_stage(-1);
          line.set_node(node);
          line.set_level("error");
          line.set_at(Now());
          line.set_text(std::string(absl::StripAsciiWhitespace(text)));
          line.set_report(message.sequence());
        }
        AppendLog(*entry, std::move(lines));
      }
      if (entry->attempt.Find(node)->state() != R::ENDED) {
        AddEvent(*entry, "RUNNER_GONE",
                 absl::StrCat("node ", node, ": the runner ended with ",
                              gone.how()));
      }
      entry->attempt.OnGone(node, gone);
      AfterRunnerChange(*entry);
      break;
    }
    case v1::NodeMessage::kAnswer:
      AnswerCommand(message.answer().command(), message.answer());
      break;
    case v1::NodeMessage::kLeaving:
      OnLeaving(node, message.leaving());
      break;
    default:
      break;
  }
}

// ---- reports ----

void Engine::OnReport(const std::string& node, int64_t sequence,
                      const v1::NodeMessage::FromRunner& message) {
  Entry* found = Find(message.runner());
  if (found == nullptr || found->attempt.Find(node) == nullptr) {
    spdlog::debug("node {}: a report of job {} attempt {} is out of date", node,
                  message.runner().job(), message.runner().attempt());
    return;
  }
  Entry& entry = *found;
  const v1::RunnerReport& report = message.report();
  switch (report.body_case()) {
    case v1::RunnerReport::kReady:
      entry.attempt.OnReady(node, report.ready().data_address());
      Changed(entry);
      AfterRunnerChange(entry);
      break;
    case v1::RunnerReport::kRunning:
      entry.attempt.OnConnected(node);
      Changed(entry);
      AfterRunnerChange(entry);
      break;
    case v1::RunnerReport::kProgress:
      OnProgress(entry, report.progress());
      break;
    case v1::RunnerReport::kCheckpoint: {
      const v1::Manifest& manifest = report.checkpoint().manifest();
      if (!report.checkpoint().problem().empty()) {
        CheckpointFailed(entry, manifest.step(), report.checkpoint().problem());
        Changed(entry);
        break;
      }
      entry.record.set_announced_step(
          std::max(entry.record.announced_step(), manifest.step()));
      Upload& upload = entry.uploads[manifest.step()];
      upload.has_manifest = true;
      upload.manifest = manifest;
      // Kept on the disk: the report is not sent again once acknowledged.
      *entry.record.add_manifests() = manifest;
      Changed(entry);
      TryPublish(entry, manifest.step());
      break;
    }
    case v1::RunnerReport::kEnded:
      entry.attempt.OnEnded(node, report.ended());
      if (report.ended().finished() && report.ended().test_accuracy() >= 0) {
        entry.job.set_test_accuracy(report.ended().test_accuracy());
      }
      if (report.ended().code() != 0) {
        AddEvent(entry, "RUNNER_ENDED",
                 absl::StrCat("node ", node, ": ", report.ended().reason(),
                              ": ", report.ended().message()));
      }
      Changed(entry);
      AfterRunnerChange(entry);
      break;
    case v1::RunnerReport::kLog: {
      std::vector<v1::LogLine> lines(report.log().lines().begin(),
                                     report.log().lines().end());
      for (v1::LogLine& line : lines) {
        line.set_attempt(message.runner().attempt());
        line.set_node(node);
        line.set_report(sequence);
      }
      AppendLog(entry, std::move(lines));
      break;
    }
    case v1::RunnerReport::kStages:
      for (const v1::StageMetrics& stage : report.stages().stages()) {
        v1::StageMetrics& kept =
            entry.stages[absl::StrCat(stage.index(), ".", stage.replica())];
        kept = stage;
        entry.stages_heard[absl::StrCat(stage.index(), ".", stage.replica())] =
            clock_.Now();
        if (kept.planned_ms() == 0 &&
            stage.index() < entry.job.plan().stages_size()) {
          kept.set_planned_ms(1e3 *
                              entry.job.plan().stages(stage.index()).seconds());
        }
      }
      entry.job.clear_stages();
      for (const v1::Seat& seat : entry.job.placement().seats()) {
        const auto it =
            entry.stages.find(absl::StrCat(seat.stage(), ".", seat.replica()));
        if (it != entry.stages.end()) *entry.job.add_stages() = it->second;
      }
      Changed(entry);
      break;
    default:
      break;
  }
}

void Engine::OnProgress(Entry& entry,
                        const v1::RunnerReport::Progress& progress) {
  // Progress is proof of connection where a Running report was lost with the
  // coordinator before.
  if (entry.job.state() == v1::STARTING) {
    for (const std::string& node : entry.attempt.Living()) {
      entry.attempt.OnConnected(node);
    }
    AfterRunnerChange(entry);
  }
  v1::Job& job = entry.job;
  std::vector<const v1::StepMetrics*> fresh;
  for (const v1::StepMetrics& step : progress.steps()) {
    if (step.step() <= entry.last_step) continue;
    entry.last_step = step.step();
    fresh.push_back(&step);
    entry.board_steps.push_back(step);
    job.set_loss(step.loss());
  }
  if (!fresh.empty()) {
    const absl::Status status = writer_->AppendSteps(job.id(), fresh);
    if (!status.ok()) {
      spdlog::warn("job {}: steps are not stored: {}", job.id(),
                   std::string(status.message()));
    }
  }
  job.set_step(std::max(job.step(), progress.step()));
  if (progress.total_steps() > 0) job.set_total_steps(progress.total_steps());
  job.set_phase(progress.phase());
  if (progress.samples_per_second() > 0) {
    job.set_samples_per_second(progress.samples_per_second());
  }
  if (progress.measured_step_ms() > 0) {
    job.set_measured_step_ms(progress.measured_step_ms());
    job.set_eta_seconds(1e-3 * progress.measured_step_ms() *
                        static_cast<double>(job.total_steps() - job.step()));
  }
  Changed(entry);
  if (progress.has_epoch() && progress.epoch().epoch() > 0) {
    const v1::EpochMetrics& epoch = progress.epoch();
    while (job.epochs_size() > 0 &&
           job.epochs(job.epochs_size() - 1).epoch() >= epoch.epoch()) {
      job.mutable_epochs()->RemoveLast();
    }
    *job.add_epochs() = epoch;
    if (epoch.test_accuracy() >= 0) {
      job.set_test_accuracy(epoch.test_accuracy());
    }
  }
}

}  // namespace pipework
