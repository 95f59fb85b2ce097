// A pipe-runner of tests: speaks the protocol and computes nothing. The name
// of the job's spec says how it behaves:
//   obeys       ready, running, five steps, then waits for its stop
//   shard       as obeys, and writes a shard after its start
//   dies        says something on standard error and aborts after its start
//   leaves      exits 3 without a word after its setup
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/framing.h"
#include "proto/node.pb.h"

namespace pipework {
namespace {

class FakeRunner {
 public:
  explicit FakeRunner(int fd) : channel_(UniqueFd(fd), "fake runner") {}

  int Run() {
    for (;;) {
      v1::RunnerCommand command;
      if (!channel_.Receive(&command, MonotonicNow() + absl::Minutes(1)).ok()) {
        return 1;
      }
      v1::RunnerReport report;
      switch (command.body_case()) {
        case v1::RunnerCommand::kSetup:
          setup_ = command.setup();
          if (setup_.spec().name() == "leaves") return 3;
          report.mutable_ready()->set_data_address("127.0.0.1:1");
          Send(report);
          break;
        case v1::RunnerCommand::kLinks:
          links_ = command.links();
          report.mutable_ready()->set_data_address(links_.data_host() + ":1");
          Send(report);
          break;
        case v1::RunnerCommand::kStart:
          if (links_.nodes_size() > 0) {
            v1::LinkMeasurement* link = report.mutable_links()->add_links();
            link->set_a(links_.nodes(0));
            link->set_b(command.start().placement().seats(1).data_address());
            Send(report);
            return 0;
          }
          Start();
          break;
        case v1::RunnerCommand::kStop:
          report.mutable_ended()->set_stopped(true);
          Send(report);
          return 0;
        case v1::RunnerCommand::kProfile:
          if (command.profile().spec().name() == "dies") std::abort();
          report.mutable_profile()->set_batch(command.profile().batch());
          Send(report);
          return 0;
        default:
          return 1;
      }
    }
  }

 private:
  void Send(const v1::RunnerReport& report) {
    channel_.Send(report, MonotonicNow() + absl::Seconds(10)).IgnoreError();
  }

  void Start() {
    v1::RunnerReport running;
    running.mutable_running();
    Send(running);
    if (setup_.spec().name() == "dies") {
      std::fprintf(stderr, "something broke here\n");
      std::abort();
    }
    for (int step = 0; step < 5; ++step) {
      v1::RunnerReport report;
      report.mutable_progress()->set_step(step + 1);
      report.mutable_progress()->add_steps()->set_step(step);
      Send(report);
    }
    if (setup_.spec().name() == "shard") {
      v1::RunnerReport report;
      const std::string path = setup_.folder() + "/stage-0.safetensors";
      std::ofstream(path) << "shard";
      auto* shard = report.mutable_shard();
      shard->set_step(5);
      shard->set_path(path);
      shard->mutable_shard()->set_file("stage-0.safetensors");
      shard->mutable_shard()->set_bytes(5);
      Send(report);
    }
  }

  FrameChannel channel_;
  v1::RunnerSetup setup_;
  v1::RunnerLinks links_;
};

}  // namespace
}  // namespace pipework

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--inventory") == 0) {
    std::printf(
        "devices { name: \"cpu:0\" kind: \"cpu x1 fake\" usable: true }\n"
        "devices { name: \"cuda:0\" kind: \"gpu\" "
        "unusable_reason: \"no kernels\" }\n");
    return 0;
  }
  const char* variable = std::getenv("PIPEWORK_RUNNER_FD");
  int fd = -1;
  if (variable == nullptr || !absl::SimpleAtoi(variable, &fd)) return 2;
  return pipework::FakeRunner(fd).Run();
}
