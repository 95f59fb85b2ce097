#include "cli/commands/logs.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/json_printer.h"
#include "cli/local_cluster.h"
#include "cli/report.h"

namespace pipework {
namespace {

void Print(const v1::LogLine& line, bool timestamps, const Output& out) {
  if (out.format == OutputFormat::kJson) {
    out.RawJson(ToJson(line, "LogLine", {.pretty = false}));
    return;
  }
  std::string text;
  if (timestamps) {
    absl::StrAppend(
        &text,
        absl::FormatTime(
            "%Y-%m-%dT%H:%M:%E3SZ",
            absl::FromUnixMillis(static_cast<int64_t>(1000 * line.at())),
            absl::UTCTimeZone()),
        " ");
  }
  std::string who = line.node();
  if (line.stage() >= 0) {
    who = absl::StrCat("s", line.stage(), ".r", line.replica(), " ", who);
  }
  absl::StrAppend(&text, "[", who, "] ",
                  line.level() == "info" ? "" : line.level() + ": ",
                  SafeText(line.text()));
  out.Text(text);
}

}  // namespace

int Logs(Invocation& invocation) {
  const Output& out = *invocation.out;
  v1::StreamLogsRequest request;
  request.set_job(invocation.positionals[0]);
  request.set_follow(invocation.Has("follow"));
  int64_t attempt = 0;
  int64_t tail = 0;
  absl::Status usage = invocation.GetInt("attempt", 1, &attempt);
  if (usage.ok()) usage = invocation.GetInt("tail", 1, &tail);
  for (const std::string& text : invocation.All("stage")) {
    int stage = 0;
    if (!absl::SimpleAtoi(text, &stage) || stage < 0) {
      usage = absl::InvalidArgumentError(absl::StrCat(
          "--stage: value is \"", text, "\", expected a stage number"));
    }
    request.add_stages(stage);
  }
  if (!usage.ok()) return out.Error(kExitUsage, "USAGE", usage.message());
  request.set_attempt(static_cast<int>(attempt));
  request.set_tail(tail);
  const bool timestamps = invocation.Has("timestamps");

  auto source = FindJobs(invocation);
  if (!source.ok()) return out.Error(source.status());
  const auto job = source->FindJob(request.job());
  if (!job.ok()) return out.Error(job.status());
  request.set_job(job->id());

  if (source->client == nullptr) {
    auto lines = source->reader->Log(job->id(), 0, 0);
    if (!lines.ok()) return out.Error(lines.status());
    const auto unwanted = [&](const v1::LogLine& line) {
      return (attempt > 0 && line.attempt() != attempt) ||
             (request.stages_size() > 0 &&
              std::find(request.stages().begin(), request.stages().end(),
                        line.stage()) == request.stages().end());
    };
    lines->erase(std::remove_if(lines->begin(), lines->end(), unwanted),
                 lines->end());
    const size_t first = tail > 0 && lines->size() > static_cast<size_t>(tail)
                             ? lines->size() - static_cast<size_t>(tail)
                             : 0;
    for (size_t i = first; i < lines->size(); ++i) {
      Print((*lines)[i], timestamps, out);
    }
    if (!request.follow()) return kExitOk;
    return invocation.Has("exit-status") ? VerdictCode(job->state()) : kExitOk;
  }

  if (request.follow()) CatchInterrupts();
  const auto on = [&](const v1::LogChunk& chunk) {
    for (const v1::LogLine& line : chunk.lines()) {
      if (line.sequence() <= request.after_sequence()) continue;
      Print(line, timestamps, out);
      request.set_after_sequence(line.sequence());
      request.set_tail(0);
    }
    return true;
  };
  double deadline = MonotonicSeconds() + 30;
  while (true) {
    const double before = MonotonicSeconds();
    const absl::Status status = source->client->StreamLogs(
        request, on, [] { return Interrupts() > 0; });
    if (status.ok()) break;
    if (absl::IsCancelled(status)) {
      out.Note(absl::StrCat("detached; job ", job->id(), " goes on"));
      return kExitInterrupted;
    }
    if (!request.follow() || !absl::IsUnavailable(status)) {
      return out.Error(status);
    }
    // A cut stream is taken up after the last line that was printed.
    if (MonotonicSeconds() - before > 2) deadline = MonotonicSeconds() + 30;
    if (MonotonicSeconds() > deadline) return out.Error(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  if (!request.follow() || !invocation.Has("exit-status")) return kExitOk;
  const auto end = source->client->GetJob(job->id());
  if (!end.ok()) return out.Error(end.status());
  return VerdictCode(end->state());
}

}  // namespace pipework
