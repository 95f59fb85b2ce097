// The engine's side that follows an attempt from its first runner to its last
// word, and its checkpoints on their way.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/paths.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/coordinator/engine.h"
#include "daemon/coordinator/job_store.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "proto/text_file.h"
#include "spdlog/spdlog.h"

namespace pipework {

using R = v1::RunnerRecord;

// ---- start ----

void Engine::AfterRunnerChange(Entry& entry) {
  Changed(entry);
  const absl::Time now = clock_.Now();
  if (entry.attempt.broken() && entry.broken_at == absl::InfiniteFuture()) {
    entry.broken_at = now;
  }
  if (entry.record.ending() != v1::JOB_STATE_UNSPECIFIED) {
    TendEnding(entry);
    return;
  }
  if (entry.attempt.broken()) return;  // TendAttempt decides when it settled
  if (entry.job.state() == v1::RESERVING &&
      entry.attempt.AllReached(R::READY)) {
    for (v1::Seat& seat : *entry.job.mutable_placement()->mutable_seats()) {
      seat.set_data_address(entry.attempt.Find(seat.node())->data_address());
    }
    Move(entry, JobTrigger::kReady, "CONNECTING",
         "every runner is ready; they connect to each other");
    entry.phase_deadline = now + options_.start_limit;
  }
  if (entry.job.state() == v1::STARTING &&
      entry.attempt.AllReached(R::CONNECTED)) {
    Move(entry, JobTrigger::kConnected, "", "");
  }
}

void Engine::TendAttempt(Entry& entry) {
  const absl::Time now = clock_.Now();
  const std::string id = entry.job.id();
  if (entry.preparation != nullptr) {
    if (now < entry.preparation->deadline) return;
    const std::string step = entry.preparation->step;
    for (const v1::Topology::Node& node : entry.preparation->topology.nodes()) {
      if (step == "profile") SendKill(id, 0, node.name(), "took too long");
    }
    GiveUpPreparation(entry, "TIMEOUT",
                      absl::StrCat("the ", step, " did not end in time"),
                      /*wait=*/false);
    return;
  }
  if (entry.record.ending() != v1::JOB_STATE_UNSPECIFIED) {
    TendEnding(entry);
    return;
  }
  if (!HasRunners(entry.job.state())) return;
  const bool durable = entry.events.empty();

  // What a state promises is sent once the state is stored.
  if (durable && entry.job.state() == v1::RESERVING) {
    for (const R& runner : entry.record.runners()) {
      if (runner.state() != R::ASKED || !cluster_.Connected(runner.node()) ||
          !entry.setup_sent.insert(runner.node()).second) {
        continue;
      }
      SendSetup(entry, runner.node());
    }
  }
  if (durable && entry.job.state() == v1::STARTING) {
    for (const R& runner : entry.record.runners()) {
      if (runner.state() > R::STARTED || !cluster_.Connected(runner.node()) ||
          !entry.start_sent.insert(runner.node()).second) {
        continue;
      }
      v1::RunnerCommand command;
      *command.mutable_start()->mutable_placement() = entry.job.placement();
      SendRunner(id, entry.job.attempt(), runner.node(), command);
      entry.attempt.OnStarted(runner.node());
      Changed(entry);
    }
  }
  if (now >= entry.phase_deadline) {
    const bool reserving = entry.job.state() == v1::RESERVING;
    entry.attempt.AddCause(
        kCauseTimeout, "START_TIMEOUT",
        absl::StrFormat(
            "job %s attempt %d: %s after %s, still missing: %s", id,
            entry.job.attempt(),
            reserving ? "not every runner is ready"
                      : "not every runner is "
                        "connected",
            absl::FormatDuration(reserving ? options_.reserve_limit
                                           : options_.start_limit),
            entry.attempt.Missing(reserving ? R::READY : R::CONNECTED)),
        "", true);
    entry.phase_deadline = absl::InfiniteFuture();
    AfterRunnerChange(entry);
  }

  if (entry.record.finished()) {
    // Later troubles of a run that has come to its end do not count.
    BeginEnding(entry, v1::SUCCEEDED, "", "", absl::Seconds(10));
    return;
  }
  if (entry.attempt.broken()) {
    const v1::Cause& cause = entry.attempt.FirstCause();
    const absl::Duration settle = cause.rank() > kCausePeerLost
                                      ? options_.settle
                                      : options_.settle_peer_lost;
    if (cause.rank() < kCauseKilled && now - entry.broken_at < settle) return;
    const int used = entry.record.restarts();
    const int allowed = entry.job.spec().restart().max();
    const std::string text = cause.message();
    AddEvent(entry, "FAULT", absl::StrCat(cause.reason(), ": ", text));
    if (cause.retryable() && used < allowed) {
      entry.record.set_restarts(used + 1);
      Move(entry, JobTrigger::kFault, cause.reason(),
           absl::StrCat(text, "; restart ", used + 1, " of ", allowed));
      BeginEnding(entry, v1::RECOVERING, cause.reason(), text,
                  absl::ZeroDuration());
    } else {
      SetReason(entry, cause.reason(), absl::StrCat("ends: ", text));
      BeginEnding(entry, v1::FAILED, cause.reason(),
                  allowed == 0 || !cause.retryable()
                      ? text
                      : absl::StrCat(text, " (restarts used up: ", used, " of ",
                                     allowed, ")"),
                  absl::ZeroDuration());
    }
    return;
  }
  if (entry.attempt.AllEnded()) {
    entry.attempt.AddCause(kCauseQuietExit, "RUNNER_EXITED_EARLY",
                           "every runner ended before the run was over", "",
                           true);
    AfterRunnerChange(entry);
  }
}

// ---- end ----

void Engine::BeginEnding(Entry& entry, v1::JobState next,
                         const std::string& reason, const std::string& message,
                         absl::Duration grace) {
  entry.record.set_ending(next);
  entry.record.set_ending_reason(reason);
  entry.record.set_ending_message(message);
  entry.ending_at = clock_.Now();
  entry.killed = false;
  entry.phase_deadline = absl::InfiniteFuture();
  const bool gentle = grace > absl::ZeroDuration();
  entry.kill_at = entry.ending_at + (gentle ? grace : options_.stop_grace);
  Changed(entry);
  // A profile has nothing to save.
  std::set<std::string> profiling;
  for (int64_t command : entry.profiling) {
    const auto it = commands_.find(command);
    if (it != commands_.end()) profiling.insert(it->second.node);
  }
  for (const std::string& node : profiling) {
    SendKill(entry.job.id(), 0, node, message);
  }
  if (next == v1::SUCCEEDED) return;  // they end by themselves
  for (const R& runner : entry.record.runners()) {
    // Not asked for yet, or by a coordinator before this one: the node knows.
    if (runner.state() == R::ASKED &&
        entry.setup_sent.count(runner.node()) == 0) {
      SendKill(entry.job.id(), entry.job.attempt(), runner.node(), message);
    }
  }
  v1::RunnerCommand command;
  command.mutable_stop()->set_now(!gentle);
  command.mutable_stop()->set_save(gentle);
  command.mutable_stop()->set_reason(message.empty() ? v1::JobState_Name(next)
                                                     : message);
  const std::string leader = LeaderNode(entry.job.placement());
  for (const std::string& node : entry.attempt.Living()) {
    // A gentle stop is the leader's to spread.
    if (gentle && node != leader) continue;
    SendRunner(entry.job.id(), entry.job.attempt(), node, command);
  }
}

void Engine::TendEnding(Entry& entry) {
  const absl::Time now = clock_.Now();
  const v1::JobState next = entry.record.ending();
  if (!entry.killed && now >= entry.kill_at) {
    entry.killed = true;
    for (const std::string& node : entry.attempt.Living()) {
      SendKill(entry.job.id(), entry.job.attempt(), node,
               entry.record.ending_message());
    }
  }
  const bool late = entry.killed && now >= entry.kill_at + options_.stop_limit;
  if (!entry.attempt.AllGone() && !late) return;
  if (!entry.profiling.empty() && !late) return;

  bool publishing = false;
  bool could = false;  // shards may still come
  std::string problem;
  for (const auto& [step, upload] : entry.uploads) {
    if (!upload.problem.empty()) problem = upload.problem;
    publishing = publishing || upload.publishing;
    could = could || upload.has_manifest;
  }
  if (publishing) return;
  if (next == v1::SUCCEEDED) {
    if (entry.record.announced_step() < 0 ||
        entry.job.checkpoint_step() >= entry.record.announced_step()) {
      Conclude(entry);
      return;
    }
    bool dead = true;  // whoever has shards still to send
    for (const R& runner : entry.record.runners()) {
      dead = dead && cluster_.StateOf(runner.node()) == LeaseState::kLost;
    }
    if (dead || now >= entry.ending_at + options_.upload_limit) {
      entry.record.set_ending(v1::FAILED);
      entry.record.set_ending_reason("CHECKPOINT_LOST");
      entry.record.set_ending_message(absl::StrCat(
          "the run came to its end, but the shards of its last checkpoint "
          "(step ",
          entry.record.announced_step(), ") did not arrive",
          dead ? "; their nodes are lost" : " in time",
          problem.empty() ? "" : absl::StrCat(": ", problem)));
      Conclude(entry);
    }
    return;
  }
  // A checkpoint that was written on the way is worth a short wait.
  if (could && now < entry.ending_at + options_.late_shards &&
      (next == v1::CANCELLED ||
       entry.record.ending_reason() == "NODE_LEAVING")) {
    return;
  }
  Conclude(entry);
}

void Engine::FinishAttemptRecord(Entry& entry) {
  if (entry.job.attempts_size() == 0) return;
  v1::Attempt* attempt =
      entry.job.mutable_attempts(entry.job.attempts_size() - 1);
  if (attempt->ended_at() != 0) return;
  attempt->set_to_step(entry.job.step());
  attempt->set_ended_at(static_cast<int64_t>(Now()));
  const v1::JobState ending = entry.record.ending();
  attempt->set_end(ending == v1::RECOVERING ? "FAILED"
                                            : v1::JobState_Name(ending));
  attempt->set_cause(entry.record.ending_message());
}

void Engine::Conclude(Entry& entry) {
  const v1::JobState next = entry.record.ending();
  const std::string reason = entry.record.ending_reason();
  const std::string message = entry.record.ending_message();
  FinishAttemptRecord(entry);
  // What is not published now never will be.
  entry.uploads.clear();
  entry.record.clear_manifests();
  entry.record.clear_ending();
  entry.ending_at = absl::InfiniteFuture();
  entry.kill_at = absl::InfiniteFuture();
  entry.broken_at = absl::InfiniteFuture();
  const std::string checkpoints = entry.job.folder() + "/checkpoints";
  const int keep = std::max(1, entry.job.spec().checkpoint().keep());
  const std::string uploads = entry.job.folder() + "/uploads";
  host_->Work([checkpoints, uploads, keep]() -> std::function<void()> {
    absl::Status tidy = RemoveTree(uploads);
    if (FileExists(checkpoints)) {
      tidy.Update(RemovePartial(checkpoints));
      tidy.Update(Retain(checkpoints, keep));
    }
    if (!tidy.ok()) spdlog::warn("{}", std::string(tidy.message()));
    return [] {};
  });
  // Where a runner was not seen to end, its devices stay taken until it is.
  for (const std::string& node : entry.attempt.Living()) {
    cluster_.Strand(entry.job.id(), node);
  }
  switch (next) {
    case v1::SUCCEEDED:
      if (entry.job.state() == v1::STARTING) {
        Move(entry, JobTrigger::kConnected, "", "");
      }
      Move(entry, JobTrigger::kFinished, reason, message);
      break;
    case v1::CANCELLED:
      Move(entry, JobTrigger::kStopped, reason, message);
      break;
    case v1::RECOVERING:
      cluster_.ReleaseAll(entry.job.id());
      ++cluster_version_;
      entry.recovering_since = clock_.Now();
      entry.refused_at = -1;
      Changed(entry);
      break;
    default:
      Move(entry, JobTrigger::kError, reason, message);
      break;
  }
  // The job's files on its nodes are of no use once it is over.
  if (IsTerminal(entry.job.state()) && !entry.record.write_operation_log()) {
    std::set<std::string> nodes;
    for (const R& runner : entry.record.runners()) nodes.insert(runner.node());
    for (const std::string& node : nodes) {
      if (!cluster_.Connected(node)) continue;
      v1::CoordinatorMessage forget;
      forget.mutable_forget_job()->set_job(entry.job.id());
      SendCommand(node, std::move(forget), absl::Seconds(30), nullptr);
    }
  }
}

// ---- checkpoints ----

std::string Engine::UploadFolder(const Entry& entry, int64_t step) const {
  return absl::StrCat(entry.job.folder(), "/uploads/step-", step, "-a",
                      entry.job.attempt());
}

void Engine::RestoreUploads(Entry& entry) {
  const std::string prefix = "step-";
  const std::string suffix = absl::StrCat("-a", entry.job.attempt());
  for (const v1::Manifest& manifest : entry.record.manifests()) {
    Upload& upload = entry.uploads[manifest.step()];
    upload.has_manifest = true;
    upload.manifest = manifest;
  }
  std::error_code error;
  const std::string folder = entry.job.folder() + "/uploads";
  for (const auto& each : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = each.path().filename().string();
    int64_t step = 0;
    int attempt = 0;
    if (std::sscanf(name.c_str(), "step-%ld-a%d", &step, &attempt) != 2 ||
        attempt != entry.job.attempt()) {
      continue;
    }
    std::error_code inner;
    for (const auto& file :
         std::filesystem::directory_iterator(each.path(), inner)) {
      v1::Shard shard;
      if (!ReadTextFile(file.path().string(), &shard).ok()) continue;
      entry.uploads[step].shards[shard.file()] = shard;
    }
  }
  for (auto& [step, upload] : entry.uploads) {
    // As BeginCheckpoint named it; one that is not there is begun anew.
    upload.partial =
        absl::StrCat(entry.job.folder(), "/checkpoints/.partial-",
                     CheckpointFolderName(step), "-a", entry.job.attempt());
    if (!FileExists(upload.partial)) upload.shards.clear();
  }
}

absl::StatusOr<std::string> Engine::BeginShard(const std::string& job,
                                               int attempt, int64_t step,
                                               const v1::Shard& shard) {
  v1::RunnerRef ref;
  ref.set_job(job);
  ref.set_attempt(attempt);
  Entry* entry = Find(ref);
  if (entry == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job, ": attempt ", attempt,
                     " is not in force; its checkpoint is not taken"));
  }
  if (shard.file().empty() || shard.file()[0] == '.' ||
      shard.file().find('/') != std::string::npos) {
    return Mismatch(absl::StrCat("job ", job), "the name of a shard",
                    absl::StrCat("\"", shard.file(), "\""),
                    "a plain file name");
  }
  // Published, or overtaken by a newer one, as after a restart.
  if (entry->job.checkpoint_step() >= step && entry->job.checkpoint() != "" &&
      entry->uploads.count(step) == 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("job ", job, ": the checkpoint of step ",
                     entry->job.checkpoint_step(), " is published"));
  }
  Upload& upload = entry->uploads[step];
  if (upload.partial.empty() || !FileExists(upload.partial)) {
    ASSIGN_OR_RETURN(
        upload.partial,
        BeginCheckpoint(entry->job.folder() + "/checkpoints", step, attempt));
    upload.shards.clear();
    RETURN_IF_ERROR(MakeFolders(UploadFolder(*entry, step)));
  }
  return upload.partial;
}

absl::Status Engine::ShardStored(const std::string& job, int attempt,
                                 int64_t step, const v1::Shard& shard) {
  RETURN_IF_ERROR(BeginShard(job, attempt, step, shard).status());
  Entry* entry = Find(job);
  // Beside the file: after a restart nobody sends its description again.
  RETURN_IF_ERROR(WriteTextFile(
      absl::StrCat(UploadFolder(*entry, step), "/", shard.file(), ".txt"),
      shard));
  entry->uploads[step].shards[shard.file()] = shard;
  TryPublish(*entry, step);
  return absl::OkStatus();
}

void Engine::ShardRefused(const std::string& job, int attempt, int64_t step,
                          const absl::Status& why) {
  Entry* entry = Find(job);
  if (entry == nullptr || entry->job.attempt() != attempt ||
      IsTerminal(entry->job.state())) {
    return;
  }
  Upload& upload = entry->uploads[step];
  // The node tries again for a while; once is enough to know.
  if (!upload.problem.empty()) return;
  upload.problem = std::string(why.message());
  CheckpointFailed(*entry, step, upload.problem);
}

void Engine::CheckpointFailed(Entry& entry, int64_t step,
                              const std::string& problem) {
  AddEvent(entry, "CHECKPOINT_FAILED",
           absl::StrCat("checkpoint of step ", step, " is not stored",
                        entry.job.checkpoint().empty()
                            ? ", and there is no earlier one: "
                            : absl::StrCat(", the last good one is of step ",
                                           entry.job.checkpoint_step(), ": "),
                        problem));
}

void Engine::TryPublish(Entry& entry, int64_t step) {
  Upload& upload = entry.uploads[step];
  if (!upload.has_manifest || upload.publishing) return;
  v1::Manifest manifest = upload.manifest;
  for (v1::Shard& shard : *manifest.mutable_shards()) {
    const auto found = upload.shards.find(shard.file());
    if (found == upload.shards.end()) return;
    shard = found->second;
  }
  if (manifest.shards_size() == 0) return;
  upload.publishing = true;
  const std::string id = entry.job.id();
  const int attempt = entry.job.attempt();
  const int keep = std::max(1, entry.job.spec().checkpoint().keep());
  const std::string descriptions = UploadFolder(entry, step);
  host_->Work([this, id, attempt, step, manifest, keep, descriptions,
               partial = upload.partial,
               checkpoints = entry.job.folder() +
                             "/checkpoints"]() -> std::function<void()> {
    auto folder = PublishCheckpoint(partial, manifest);
    if (folder.ok()) {
      absl::Status tidy = Retain(checkpoints, keep);
      tidy.Update(RemoveTree(descriptions));
      if (!tidy.ok()) spdlog::warn("{}", std::string(tidy.message()));
    }
    return [this, id, attempt, step, folder] {
      Entry* done = Find(id);
      if (done == nullptr || done->job.attempt() != attempt ||
          IsTerminal(done->job.state())) {
        return;
      }
      done->uploads.erase(step);
      auto* manifests = done->record.mutable_manifests();
      for (int i = manifests->size() - 1; i >= 0; --i) {
        if (manifests->Get(i).step() == step) {
          manifests->DeleteSubrange(i, 1);
        }
      }
      if (folder.ok()) {
        if (step >= done->job.checkpoint_step()) {
          done->job.set_checkpoint(*folder);
          done->job.set_checkpoint_step(step);
        }
        AddEvent(*done, "CHECKPOINT",
                 absl::StrCat("checkpoint of step ", step,
                              " is published: ", *folder));
      } else {
        AddEvent(
            *done, "CHECKPOINT_FAILED",
            absl::StrCat("checkpoint of step ", step, " is not published: ",
                         std::string(folder.status().message())));
        if (done->record.finished() && step >= done->job.step()) {
          // The last one counts: without it the job has not succeeded.
          done->record.set_ending(v1::FAILED);
          done->record.set_ending_reason("CHECKPOINT_FAILED");
          done->record.set_ending_message(
              std::string(folder.status().message()));
        }
      }
      if (done->record.ending() != v1::JOB_STATE_UNSPECIFIED) {
        TendEnding(*done);
      }
    };
  });
}

}  // namespace pipework
