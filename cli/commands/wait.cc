#include "cli/commands/wait.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/local_cluster.h"
#include "cli/report.h"

namespace pipework {
namespace {

// What --for asks for.
struct Goal {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  int64_t step = -1;
  bool checkpoint = false;

  bool Reached(const v1::Job& job) const {
    if (state != v1::JOB_STATE_UNSPECIFIED) return job.state() == state;
    if (step >= 0) return job.step() >= step;
    if (checkpoint) return !job.checkpoint().empty();
    return IsTerminal(job.state());
  }
  bool IsEnd() const {
    return state == v1::JOB_STATE_UNSPECIFIED && step < 0 && !checkpoint;
  }
};

absl::Status ParseGoal(absl::string_view text, Goal* goal) {
  if (text == "end") return absl::OkStatus();
  if (text == "checkpoint") {
    goal->checkpoint = true;
    return absl::OkStatus();
  }
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "step=") &&
      absl::SimpleAtoi(rest, &goal->step) && goal->step >= 0) {
    return absl::OkStatus();
  }
  rest = text;
  if (absl::ConsumePrefix(&rest, "state=") &&
      v1::JobState_Parse(absl::AsciiStrToUpper(rest), &goal->state)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--for: value is \"", text,
                   "\", expected end, state=NAME, step=N or checkpoint"));
}

}  // namespace

int Wait(Invocation& invocation) {
  const Output& out = *invocation.out;
  Goal goal;
  double timeout = 0;
  absl::Status usage = ParseGoal(invocation.Get("for", "end"), &goal);
  if (usage.ok()) usage = invocation.GetSeconds("timeout", &timeout);
  if (!usage.ok()) return out.Error(kExitUsage, "USAGE", usage.message());
  CatchInterrupts();
  const double limit = timeout > 0 ? MonotonicSeconds() + timeout : 1e300;
  auto source = FindJobs(invocation);
  if (!source.ok()) return out.Error(source.status());
  int worst = kExitOk;
  for (const std::string& ref : invocation.positionals) {
    auto job = source->FindJob(ref);
    double patience = MonotonicSeconds() + 30;
    while (job.ok() && !goal.Reached(*job) && !IsTerminal(job->state())) {
      if (source->client == nullptr) {
        return out.Error(kExitUnreachable, "UNREACHABLE",
                         absl::StrCat("wait: job ", job->id(),
                                      " is not over and no coordinator runs "
                                      "in ",
                                      source->state_dir));
      }
      const absl::Status status = source->client->WatchJob(
          job->id(),
          [&](const v1::WatchJobsResponse& update) {
            if (update.has_job()) *job = update.job();
            patience = MonotonicSeconds() + 30;
            return !goal.Reached(*job) && !IsTerminal(job->state());
          },
          [&] { return Interrupts() > 0 || MonotonicSeconds() > limit; });
      if (status.ok()) continue;
      if (Interrupts() > 0) return kExitInterrupted;
      if (MonotonicSeconds() > limit) {
        return out.Error(
            kExitTimeout, "TIMEOUT",
            absl::StrCat("wait: job ", job->id(), " is ", StateText(*job),
                         " after ", FormatSeconds(timeout)));
      }
      if (!absl::IsUnavailable(status) || MonotonicSeconds() > patience) {
        return out.Error(status);
      }
    }
    if (!job.ok()) return out.Error(job.status());
    int code = kExitOk;
    if (goal.IsEnd()) {
      code = VerdictCode(job->state());
    } else if (!goal.Reached(*job)) {
      // It ended before it got there.
      code = std::max(kExitJobFailed, VerdictCode(job->state()));
    }
    worst = std::max(worst, code);
    out.Json(*job, "Job");
    out.Text(absl::StrCat(JobLine(*job), "  ", ProgressLine(*job)));
  }
  return worst;
}

int Cancel(Invocation& invocation) {
  const Output& out = *invocation.out;
  double grace = 0;
  const absl::Status usage = invocation.GetSeconds("grace", &grace);
  if (!usage.ok()) return out.Error(kExitUsage, "USAGE", usage.message());
  const auto client = MakeClient(invocation);
  if (!client.ok()) {
    return out.Error(kExitUsage, "USAGE", client.status().message());
  }
  int worst = kExitOk;
  for (const std::string& ref : invocation.positionals) {
    v1::CancelJobRequest request;
    request.set_job(ref);
    request.set_now(invocation.Has("now"));
    request.set_grace_seconds(grace);
    request.set_reason(invocation.Get("reason"));
    const auto job = (*client)->CancelJob(request);
    if (!job.ok()) {
      worst = std::max(worst, out.Error(job.status()));
      continue;
    }
    out.Json(*job, "Job");
    out.Text(absl::StrCat(job->id(), " ", StateText(*job),
                          job->message().empty() ? "" : ": ",
                          SafeText(job->message())));
  }
  return worst;
}

}  // namespace pipework
