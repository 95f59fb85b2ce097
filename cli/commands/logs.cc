#include "cli/commands/logs.h"

#include <algorithm>
#include <chrono>
#include <regex>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/json_printer.h"
#include "cli/local_cluster.h"
#include "cli/report.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr absl::string_view kLevels[] = {"debug", "info", "warn", "error"};

// Place of a level in the list; one that is not in it is shown always.
int LevelOf(absl::string_view level) {
  const auto found = std::find(std::begin(kLevels), std::end(kLevels), level);
  return static_cast<int>(found - std::begin(kLevels));
}

// Which lines are shown.
struct Filter {
  int64_t attempt = 0;  // 0: all of them
  std::vector<int> stages;
  std::vector<int> replicas;
  std::vector<std::string> nodes;
  int level = 0;
  absl::optional<std::regex> text;

  bool Wants(const v1::LogLine& line) const {
    const auto has = [](const auto& list, const auto& value) {
      return list.empty() ||
             std::find(list.begin(), list.end(), value) != list.end();
    };
    return (attempt == 0 || line.attempt() == attempt) &&
           has(stages, line.stage()) && has(replicas, line.replica()) &&
           has(nodes, line.node()) && LevelOf(line.level()) >= level &&
           (!text.has_value() || std::regex_search(line.text(), *text));
  }
};

absl::Status ReadNumbers(const Invocation& invocation, absl::string_view flag,
                         std::vector<int>* numbers) {
  for (const std::string& text : invocation.All(flag)) {
    int number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < 0) {
      return Mismatch(absl::StrCat("--", flag), "value",
                      absl::StrCat("\"", text, "\""), "a number from 0");
    }
    numbers->push_back(number);
  }
  return absl::OkStatus();
}

absl::StatusOr<Filter> FilterOf(const Invocation& invocation) {
  Filter filter;
  RETURN_IF_ERROR(invocation.GetInt("attempt", 1, &filter.attempt));
  RETURN_IF_ERROR(ReadNumbers(invocation, "stage", &filter.stages));
  RETURN_IF_ERROR(ReadNumbers(invocation, "replica", &filter.replicas));
  filter.nodes = invocation.All("node");
  const std::string level = invocation.Get("level", kLevels[0]);
  filter.level = LevelOf(level);
  if (filter.level == static_cast<int>(std::size(kLevels))) {
    return Mismatch("--level", "value", absl::StrCat("\"", level, "\""),
                    "debug, info, warn or error");
  }
  if (invocation.Has("grep")) {
    try {
      filter.text.emplace(invocation.Get("grep"));
    } catch (const std::regex_error& error) {
      return Mismatch("--grep", "expression",
                      absl::StrCat("\"", invocation.Get("grep"), "\""),
                      "a regular expression");
    }
  }
  return filter;
}

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

// What is there now: in JSON one object that has all lines.
void PrintAll(const std::vector<v1::LogLine>& lines, int64_t tail,
              bool timestamps, const Output& out) {
  const size_t first = tail > 0 && lines.size() > static_cast<size_t>(tail)
                           ? lines.size() - static_cast<size_t>(tail)
                           : 0;
  if (out.format != OutputFormat::kJson) {
    for (size_t i = first; i < lines.size(); ++i) {
      Print(lines[i], timestamps, out);
    }
    return;
  }
  v1::LogChunk chunk;
  for (size_t i = first; i < lines.size(); ++i) *chunk.add_lines() = lines[i];
  out.Json(chunk, "LogList");
}

}  // namespace

int Logs(Invocation& invocation) {
  const Output& out = *invocation.out;
  v1::StreamLogsRequest request;
  request.set_job(invocation.positionals[0]);
  request.set_follow(invocation.Has("follow"));
  int64_t tail = 0;
  const absl::StatusOr<Filter> filter = FilterOf(invocation);
  const absl::Status usage =
      filter.ok() ? invocation.GetInt("tail", 1, &tail) : filter.status();
  if (!usage.ok()) return out.Error(kExitUsage, "USAGE", usage.message());
  for (const int stage : filter->stages) request.add_stages(stage);
  request.set_attempt(static_cast<int>(filter->attempt));
  // The last N of the lines that are shown are known here only.
  if (request.follow()) request.set_tail(tail);
  const bool timestamps = invocation.Has("timestamps");

  auto source = FindJobs(invocation);
  if (!source.ok()) return out.Error(source.status());
  const auto job = source->FindJob(request.job());
  if (!job.ok()) return out.Error(job.status());
  request.set_job(job->id());

  if (source->client == nullptr) {
    auto lines = source->reader->Log(job->id(), 0, 0);
    if (!lines.ok()) return out.Error(lines.status());
    lines->erase(std::remove_if(lines->begin(), lines->end(),
                                [&](const v1::LogLine& line) {
                                  return !filter->Wants(line);
                                }),
                 lines->end());
    PrintAll(*lines, tail, timestamps, out);
    if (!request.follow()) return kExitOk;
    return invocation.Has("exit-status") ? VerdictCode(job->state()) : kExitOk;
  }

  if (request.follow()) CatchInterrupts();
  std::vector<v1::LogLine> lines;
  const auto on = [&](const v1::LogChunk& chunk) {
    for (const v1::LogLine& line : chunk.lines()) {
      if (line.sequence() <= request.after_sequence()) continue;
      if (filter->Wants(line)) {
        if (request.follow()) {
          Print(line, timestamps, out);
        } else {
          lines.push_back(line);
        }
      }
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
  if (!request.follow()) PrintAll(lines, tail, timestamps, out);
  if (!request.follow() || !invocation.Has("exit-status")) return kExitOk;
  const auto end = source->client->GetJob(job->id());
  if (!end.ok()) return out.Error(end.status());
  return VerdictCode(end->state());
}

}  // namespace pipework
