#include "cli/commands/submit.h"

#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/commands/plan_inputs.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/report.h"

namespace pipework {

int Submit(Invocation& invocation) {
  const Output& out = *invocation.out;
  v1::CreateJobRequest request;
  std::string spec_file;
  if (const int code = LoadSpec(invocation, invocation.positionals[0],
                                request.mutable_spec(), &spec_file)) {
    return code;
  }
  const absl::Status usage = CheckMetricsFile(invocation.Get("metrics"));
  if (!usage.ok()) return out.Error(kExitUsage, "USAGE", usage.message());
  if (invocation.Has("plan")) {
    const absl::Status pinned =
        PinPlan(invocation.Get("plan"), request.mutable_spec());
    if (!pinned.ok()) return out.Error(pinned);
  }
  if (invocation.Has("name")) {
    request.mutable_spec()->set_name(invocation.Get("name"));
  }
  if (invocation.Has("from")) {
    const auto folder = FindCheckpoint(invocation, invocation.Get("from"));
    // The coordinator may know a job that this machine has no folder of.
    request.set_from_checkpoint(folder.ok() ? *folder : invocation.Get("from"));
  }
  request.set_spec_file(spec_file);
  request.set_request_id(invocation.Get("request-id", NewRequestId()));
  request.set_wait_for_capacity(invocation.Has("wait-for-capacity"));
  request.set_validate_only(invocation.Has("dry-run"));

  const bool follow = invocation.Has("follow");
  const bool wait = follow || invocation.Has("wait") ||
                    invocation.Has("metrics") ||
                    invocation.Has("cancel-on-exit");
  if (wait) CatchInterrupts();
  const auto client = MakeClient(invocation);
  if (!client.ok()) {
    return out.Error(kExitUsage, "USAGE", client.status().message());
  }
  const auto created = (*client)->CreateJob(request);
  if (!created.ok()) {
    return SpecError(invocation,
                     invocation.Has("plan")
                         ? PlaceInPlan(invocation.Get("plan"), created.status())
                         : created.status());
  }
  if (request.validate_only()) {
    out.Json(*created, "Job");
    out.Text(PlanPage(created->plan(), created->name(), Output::Width()));
    out.Note("nothing was submitted (dry run)");
    return kExitOk;
  }
  if (out.format == OutputFormat::kName) {
    std::printf("job/%s\n", created->id().c_str());
  } else {
    out.Text(created->id());
  }
  if (!wait) {
    out.Json(*created, "Job");
    if (out.format == OutputFormat::kTable) {
      out.Note(absl::StrCat("submitted; follow it: pipectl status ",
                            created->id(), " --watch"));
    }
    return kExitOk;
  }

  FollowOptions options;
  options.metrics_file = invocation.Get("metrics");
  options.progress = follow;
  options.interrupted = [] { return Interrupts() > 0; };
  const auto job = FollowJob(**client, created->id(), out, options);
  if (!job.ok()) {
    if (!absl::IsCancelled(job.status())) return out.Error(job.status());
    if (invocation.Has("cancel-on-exit")) {
      v1::CancelJobRequest cancel;
      cancel.set_job(created->id());
      cancel.set_reason("interrupted");
      const auto cancelled = (*client)->CancelJob(cancel);
      if (!cancelled.ok()) return out.Error(cancelled.status());
      out.Note(absl::StrCat("cancelled ", created->id()));
    } else {
      out.Note(absl::StrCat("detached; job ", created->id(),
                            " goes on: pipectl status ", created->id(),
                            ", pipectl cancel ", created->id()));
    }
    out.Json(*created, "Job");
    return kExitInterrupted;
  }
  out.Json(*job, "Job");
  if (follow) out.Text("\n" + JobSummary(*job, Output::Width()));
  return VerdictCode(job->state());
}

}  // namespace pipework
