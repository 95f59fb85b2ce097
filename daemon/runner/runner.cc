#include "daemon/runner/runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/executor/reason.h"
#include "daemon/profiler/profiler.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

std::string Level(const std::string& level) {
  return level == "warning" ? "warn" : level;
}

}  // namespace

Runner::Runner(FrameChannel* channel, Options options)
    : channel_(channel), options_(std::move(options)) {}

Runner::~Runner() { SetLogHook(nullptr); }

absl::Status Runner::Send(const v1::RunnerReport& report) {
  return channel_->Send(report, MonotonicNow() + options_.send_limit);
}

absl::Status Runner::Run() {
  absl::Time stages_at = MonotonicNow() + options_.stages_period;
  while (!ended_) {
    const absl::Time now = MonotonicNow();
    // While it runs, the end of the executors is looked for between commands.
    const absl::Time until =
        started_ ? std::min(stages_at, now + absl::Milliseconds(20))
                 : std::min(links_deadline_, now + absl::Seconds(60));
    v1::RunnerCommand command;
    const absl::Status received = channel_->Receive(&command, until);
    if (received.ok()) {
      RETURN_IF_ERROR(Handle(command));
    } else if (!absl::IsDeadlineExceeded(received)) {
      if (attempt_ != nullptr) {
        attempt_->Stop(/*now=*/true, /*save=*/false, "the daemon is gone");
      }
      return absl::IsOutOfRange(received)
                 ? absl::UnavailableError("runner: the daemon is gone")
                 : received;
    }
    if (MonotonicNow() >= links_deadline_ && !ended_) {
      RETURN_IF_ERROR(SendEnded(absl::DeadlineExceededError(
          "links: the start of the measurement did not come")));
    }
    if (!started_ || ended_) continue;
    if (attempt_->WaitUntil(MonotonicNow())) {
      const v1::RunnerReport::Ended ended = attempt_->Wait();
      RETURN_IF_ERROR(Send(attempt_->Stages()));
      v1::RunnerReport report;
      *report.mutable_ended() = ended;
      RETURN_IF_ERROR(Send(report));
      ended_ = true;
    } else if (MonotonicNow() >= stages_at) {
      stages_at = MonotonicNow() + options_.stages_period;
      RETURN_IF_ERROR(Send(attempt_->Stages()));
    }
  }
  return absl::OkStatus();
}

absl::Status Runner::SendEnded(const absl::Status& error) {
  ended_ = true;
  spdlog::error("{}", std::string(error.message()));
  v1::RunnerReport report;
  v1::RunnerReport::Ended* ended = report.mutable_ended();
  ended->set_code(static_cast<int>(error.code()));
  ended->set_reason(ReasonOf(error));
  ended->set_message(std::string(error.message()));
  ended->set_first_cause(!IsCausedByPeer(error));
  ended->set_test_accuracy(-1);
  return Send(report);
}

absl::Status Runner::Handle(const v1::RunnerCommand& command) {
  switch (command.body_case()) {
    case v1::RunnerCommand::kSetup:
      return SetUp(command.setup());
    case v1::RunnerCommand::kStart:
      return links_ != nullptr ? MeasureLinks(command.start().placement())
                               : Start(command.start());
    case v1::RunnerCommand::kStop: {
      const v1::RunnerCommand::Stop& stop = command.stop();
      if (started_) {
        attempt_->Stop(stop.now(), stop.save(), stop.reason());
        return absl::OkStatus();
      }
      // Nothing has been trained: there is nothing to save.
      ended_ = true;
      v1::RunnerReport report;
      report.mutable_ended()->set_stopped(true);
      report.mutable_ended()->set_code(
          static_cast<int>(absl::StatusCode::kCancelled));
      report.mutable_ended()->set_reason("CANCELLED");
      report.mutable_ended()->set_message(stop.reason());
      report.mutable_ended()->set_test_accuracy(-1);
      return Send(report);
    }
    case v1::RunnerCommand::kProfile:
      return Profile(command.profile());
    case v1::RunnerCommand::kLinks:
      return ListenForLinks(command.links());
    case v1::RunnerCommand::BODY_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "runner: command of the daemon is empty or of another version, expected "
      "setup, start, stop, profile or links");
}

absl::Status Runner::SetUp(const v1::RunnerSetup& setup) {
  if (attempt_ != nullptr) {
    return absl::FailedPreconditionError("runner: a second setup came");
  }
  const std::string job = setup.job();
  const int attempt_number = setup.attempt();
  const std::string node = setup.node();
  // Lines of the log go to the job's log too.
  SetLogHook([this, attempt_number, node](const LogRecord& record) {
    v1::RunnerReport report;
    v1::LogLine* line = report.mutable_log()->add_lines();
    line->set_attempt(attempt_number);
    line->set_stage(-1);
    line->set_node(node);
    line->set_level(Level(record.level));
    line->set_at(absl::ToDoubleSeconds(record.time - absl::UnixEpoch()));
    line->set_text(record.message);
    Send(report).IgnoreError();
  });
  Attempt::Options options;
  options.setup = setup;
  options.transport = options_.transport;
  options.backend = options_.backend;
  options.peer_timeout = options_.peer_timeout;
  options.report = [this](const v1::RunnerReport& report) {
    // A daemon that is gone shows in Receive.
    Send(report).IgnoreError();
  };
  absl::StatusOr<std::unique_ptr<Attempt>> attempt =
      Attempt::Create(std::move(options));
  if (!attempt.ok()) return SendEnded(attempt.status());
  attempt_ = *std::move(attempt);
  for (const std::unique_ptr<StageExecutor>& executor : attempt_->executors()) {
    v1::StageMetrics stage;
    executor->FillMetrics(&stage);
    spdlog::info("job {}: stage {} replica {} is ready on {}: {}", job,
                 stage.index(), stage.replica(), stage.device(),
                 absl::StrJoin(stage.layers(), " "));
  }
  v1::RunnerReport report;
  report.mutable_ready()->set_data_address(attempt_->data_address());
  return Send(report);
}

absl::Status Runner::Start(const v1::RunnerCommand::Start& start) {
  if (attempt_ == nullptr || started_) {
    return absl::FailedPreconditionError(
        "runner: start came without a setup before it, or twice");
  }
  const absl::Status connected = attempt_->Connect(start.placement());
  if (!connected.ok()) return SendEnded(connected);
  v1::RunnerReport report;
  report.mutable_running();
  RETURN_IF_ERROR(Send(report));
  started_ = true;
  attempt_->Start();
  return absl::OkStatus();
}

absl::Status Runner::Profile(const v1::RunnerProfile& request) {
  ProfileOptions options;
  options.backend = options_.backend;
  absl::StatusOr<v1::Profile> profile = RunProfile(request, options);
  if (!profile.ok()) return SendEnded(profile.status());
  v1::RunnerReport report;
  *report.mutable_profile() = *std::move(profile);
  ended_ = true;
  return Send(report);
}

absl::Status Runner::ListenForLinks(const v1::RunnerLinks& request) {
  if (attempt_ != nullptr || links_ != nullptr) {
    return absl::FailedPreconditionError("runner: a second setup came");
  }
  absl::StatusOr<std::unique_ptr<LinkRun>> links =
      LinkRun::Listen(request, options_.transport);
  if (!links.ok()) return SendEnded(links.status());
  links_ = *std::move(links);
  links_deadline_ = MonotonicNow() + options_.links_limit;
  v1::RunnerReport report;
  report.mutable_ready()->set_data_address(links_->address());
  return Send(report);
}

absl::Status Runner::MeasureLinks(const v1::Placement& placement) {
  absl::StatusOr<v1::RunnerReport::Links> measured =
      links_->Measure(placement, MonotonicNow() + options_.links_limit);
  if (!measured.ok()) return SendEnded(measured.status());
  v1::RunnerReport report;
  *report.mutable_links() = *std::move(measured);
  ended_ = true;
  return Send(report);
}

}  // namespace pipework
