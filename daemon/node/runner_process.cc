#include "daemon/node/runner_process.h"

#include <signal.h>

#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/paths.h"
#include "proto/status_macros.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

constexpr absl::Duration kSendLimit = absl::Seconds(10);
// Between the end of its channel and its exit.
constexpr absl::Duration kExitLimit = absl::Seconds(5);
constexpr int64_t kLastWordsBytes = 2000;

}  // namespace

std::string RunnerProcess::OutputFile(const std::string& folder) {
  return JoinPath(folder, "runner.log");
}

absl::StatusOr<std::unique_ptr<RunnerProcess>> RunnerProcess::Start(
    Options options, const v1::RunnerCommand& first) {
  RETURN_IF_ERROR(MakeFolders(options.folder));
  std::unique_ptr<RunnerProcess> runner(new RunnerProcess);
  runner->options_ = std::move(options);
  Subprocess::Options child;
  child.program = runner->options_.program;
  child.channel_variable = "PIPEWORK_RUNNER_FD";
  child.output_file = OutputFile(runner->options_.folder);
  ASSIGN_OR_RETURN(runner->process_, Subprocess::Spawn(std::move(child)));
  runner->channel_ = std::make_unique<FrameChannel>(
      runner->process_->TakeChannel(), runner->options_.who);
  // A failure to send shows as the runner's end, with its last words.
  const absl::Status sent = runner->Send(first);
  if (!sent.ok()) spdlog::warn("{}", std::string(sent.message()));
  RunnerProcess* const self = runner.get();
  runner->reader_ = Thread("runner-reader", [self] { self->Read(); });
  return runner;
}

RunnerProcess::~RunnerProcess() {
  Kill();
  if (channel_ != nullptr) channel_->Shutdown();
  reader_.Join();
}

absl::Status RunnerProcess::Send(const v1::RunnerCommand& command) {
  return channel_->Send(command, MonotonicNow() + kSendLimit);
}

void RunnerProcess::Kill() { process_->Signal(SIGKILL); }

void RunnerProcess::Read() {
  for (;;) {
    v1::RunnerReport report;
    const absl::Status status =
        channel_->Receive(&report, MonotonicNow() + absl::Hours(1));
    if (absl::IsDeadlineExceeded(status)) continue;
    if (!status.ok()) {
      if (!absl::IsOutOfRange(status)) {
        spdlog::warn("{}", std::string(status.message()));
      }
      break;
    }
    options_.on_report(std::move(report));
  }
  auto ended = process_->Wait(MonotonicNow() + kExitLimit);
  if (!ended.ok()) {
    spdlog::warn("{}: closed its channel but does not exit; killed",
                 options_.who);
    process_->Signal(SIGKILL);
    ended = process_->Wait(absl::InfiniteFuture());
  }
  options_.on_gone(*ended,
                   TailOfFile(OutputFile(options_.folder), kLastWordsBytes));
}

}  // namespace pipework
