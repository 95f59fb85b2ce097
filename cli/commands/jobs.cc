#include "cli/commands/jobs.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/local_cluster.h"
#include "cli/report.h"
#include "daemon/spec/spec.h"
#include "proto/errors.h"

namespace pipework {
namespace {

// The states named by --state; the name of the first that is unknown.
std::vector<v1::JobState> WantedStates(const Invocation& invocation,
                                       std::string* unknown) {
  std::vector<v1::JobState> states;
  for (const std::string& name : invocation.All("state")) {
    v1::JobState state;
    if (v1::JobState_Parse(absl::AsciiStrToUpper(name), &state)) {
      states.push_back(state);
    } else if (unknown->empty()) {
      *unknown = name;
    }
  }
  return states;
}

std::string TimeOfDay(double at) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S",
                          absl::FromUnixSeconds(static_cast<int64_t>(at)),
                          absl::LocalTimeZone());
}

}  // namespace

int Jobs(Invocation& invocation) {
  const Output& out = *invocation.out;
  std::string unknown;
  const std::vector<v1::JobState> states = WantedStates(invocation, &unknown);
  if (!unknown.empty()) {
    return out.Error(kExitUsage, "USAGE",
                     absl::StrCat("--state: state is \"", unknown,
                                  "\", expected QUEUED, PROFILING, RESERVING, "
                                  "STARTING, RUNNING, RECOVERING, CANCELLING, "
                                  "SUCCEEDED, FAILED or CANCELLED"));
  }
  int64_t limit = 100;
  const absl::Status usage = invocation.GetInt("limit", 1, &limit);
  if (!usage.ok()) return out.Error(kExitUsage, "USAGE", usage.message());
  auto source = FindJobs(invocation);
  if (!source.ok()) return out.Error(source.status());

  v1::ListJobsResponse list;
  if (source->client != nullptr) {
    v1::ListJobsRequest request;
    for (const v1::JobState state : states) request.add_states(state);
    // Pages until there is enough.
    while (list.jobs_size() < limit) {
      request.set_page_size(
          static_cast<int>(std::min<int64_t>(1000, limit - list.jobs_size())));
      const auto page = source->client->ListJobs(request);
      if (!page.ok()) return out.Error(page.status());
      for (const v1::Job& job : page->jobs()) *list.add_jobs() = job;
      if (page->next_page_token().empty()) break;
      request.set_page_token(page->next_page_token());
    }
  } else {
    const auto jobs = source->reader->ListJobs();
    if (!jobs.ok()) return out.Error(jobs.status());
    for (const v1::Job& job : *jobs) {
      const bool wanted =
          states.empty() ||
          std::find(states.begin(), states.end(), job.state()) != states.end();
      if (wanted && list.jobs_size() < limit) *list.add_jobs() = job;
    }
  }
  out.Json(list, "JobList");
  if (out.format == OutputFormat::kName) {
    for (const v1::Job& job : list.jobs()) {
      std::printf("job/%s\n", job.id().c_str());
    }
  } else if (list.jobs_size() == 0) {
    out.Text("no jobs");
  } else {
    out.Text(JobsTable(list.jobs(), Output::Width()));
  }
  return kExitOk;
}

int Show(Invocation& invocation) {
  const Output& out = *invocation.out;
  auto source = FindJobs(invocation);
  if (!source.ok()) return out.Error(source.status());
  const auto job = source->FindJob(invocation.positionals[0]);
  if (!job.ok()) return out.Error(job.status());
  out.Json(*job, "Job");
  if (out.format == OutputFormat::kName) {
    std::printf("job/%s\n", job->id().c_str());
    return kExitOk;
  }
  if (out.format == OutputFormat::kJson) return kExitOk;
  if (invocation.Has("spec")) {
    out.Text(SpecToYaml(job->spec()));
    return kExitOk;
  }
  if (invocation.Has("plan")) {
    out.Text(PlanPage(job->plan(), job->name(), Output::Width()));
    return kExitOk;
  }
  std::string text = JobSummary(*job, Output::Width());
  if (!job->checkpoint().empty()) {
    absl::StrAppend(&text, "checkpoint ", job->checkpoint(), "\n");
  }
  out.Text(text);
  if (invocation.Has("events")) {
    std::vector<v1::JobEvent> events;
    if (source->client != nullptr) {
      const absl::Status status = source->client->WatchJob(
          job->id(),
          [&events](const v1::WatchJobsResponse& update) {
            events.insert(events.end(), update.events().begin(),
                          update.events().end());
            return false;  // the snapshot has them all
          },
          [] { return false; }, 10);
      if (!status.ok()) return out.Error(status);
    } else {
      const auto read = source->reader->Events(job->id());
      if (!read.ok()) return out.Error(read.status());
      events = *read;
    }
    out.Text("");
    for (const v1::JobEvent& event : events) {
      out.Text(absl::StrCat(TimeOfDay(event.at()), "  ",
                            absl::StrFormat("%-12s", event.type()), "  ",
                            SafeText(event.text())));
    }
  }
  return kExitOk;
}

int Status(Invocation& invocation) {
  const Output& out = *invocation.out;
  double interval = 1;
  absl::Status usage = invocation.GetSeconds("interval", &interval);
  const std::vector<std::string> wanted = invocation.All("stage");
  for (const std::string& text : wanted) {
    int stage = 0;
    if (usage.ok() && (!absl::SimpleAtoi(text, &stage) || stage < 0)) {
      usage = Mismatch("--stage", "value", absl::StrCat("\"", text, "\""),
                       "a stage number");
    }
  }
  if (!usage.ok()) return out.Error(kExitUsage, "USAGE", usage.message());
  auto source = FindJobs(invocation);
  if (!source.ok()) return out.Error(source.status());
  const std::string ref = invocation.positionals[0];
  const bool watch = invocation.Has("watch");
  if (watch) CatchInterrupts();
  const bool terminal = Output::OnTerminal();
  double patience = MonotonicSeconds() + 30;
  while (true) {
    auto job = source->FindJob(ref);
    if (!job.ok()) {
      // A coordinator that restarts is waited for while watching.
      if (watch && absl::IsUnavailable(job.status()) &&
          MonotonicSeconds() < patience && Interrupts() == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        continue;
      }
      return out.Error(job.status());
    }
    patience = MonotonicSeconds() + 30;
    if (!wanted.empty()) {
      auto* stages = job->mutable_stages();
      stages->erase(std::remove_if(stages->begin(), stages->end(),
                                   [&wanted](const v1::StageMetrics& stage) {
                                     return std::find(
                                                wanted.begin(), wanted.end(),
                                                absl::StrCat(stage.index())) ==
                                            wanted.end();
                                   }),
                    stages->end());
    }
    out.Json(*job, "Job");
    if (watch && terminal && out.format == OutputFormat::kTable) {
      out.Text("\033[H\033[J");
    }
    out.Text(StatusPage(*job, Output::Width()));
    if (!watch || IsTerminal(job->state())) return kExitOk;
    for (double waited = 0; waited < interval && Interrupts() == 0;
         waited += 0.05) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (Interrupts() > 0) {
      out.Note(absl::StrCat("detached; job ", job->id(), " goes on"));
      return kExitInterrupted;
    }
  }
}

}  // namespace pipework
