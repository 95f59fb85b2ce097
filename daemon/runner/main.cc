#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "daemon/base/framing.h"
#include "daemon/base/log.h"
#include "daemon/runner/inventory.h"
#include "daemon/runner/oracle_mode.h"
#include "daemon/runner/runner.h"
#include "google/protobuf/text_format.h"
#include "proto/version.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

constexpr char kChannelVariable[] = "PIPEWORK_RUNNER_FD";

void Print(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  std::fputs(text.c_str(), stdout);
}

int Hosted(const Runner::Options& options) {
  const char* number = std::getenv(kChannelVariable);
  int fd = -1;
  if (number == nullptr || !absl::SimpleAtoi(number, &fd) || fd < 0) {
    spdlog::error(
        "pipe-runner: {} is {}, expected the descriptor that piped "
        "hands over; pipe-runner is started by piped",
        kChannelVariable, number == nullptr ? "not set" : number);
    return 2;
  }
  // Ctrl-C is for whoever started the cluster; they will say what to do.
  signal(SIGINT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  FrameChannel channel(UniqueFd(fd), "runner");
  const absl::Status status = Runner(&channel, options).Run();
  if (status.ok()) return 0;
  spdlog::error("pipe-runner: {}", std::string(status.message()));
  return 1;
}

}  // namespace
}  // namespace pipework

int main(int argc, char** argv) {
  using namespace pipework;
  CLI::App app{"pipe-runner: the executors of one job on one node"};
  bool inventory = false;
  bool version = false;
  std::string oracle;
  std::string log_level = "info";
  Runner::Options runner;
  app.add_flag("--inventory", inventory, "Print this machine's devices, end");
  app.add_option("--oracle", oracle,
                 "Run the serial oracle on an OracleRequest (text), end");
  app.add_option("--transport", runner.transport, "Data plane between runners");
  app.add_option("--backend", runner.backend, "Back end of CPU devices");
  app.add_option("--log-level", log_level, "debug, info, warning, error, off");
  app.add_flag("--version", version, "Print the version, end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;  // 0: --help
  }
  const absl::Status log = InitLog("pipe-runner", log_level);
  if (!log.ok()) {
    std::fprintf(stderr, "pipe-runner: %s\n",
                 std::string(log.message()).c_str());
    return 2;
  }
  if (version) {
    std::printf("pipe-runner %s\n", kVersion);
    return 0;
  }
  if (inventory) {
    Print(ListDevices());
    return 0;
  }
  if (!oracle.empty()) return RunOracleFile(oracle);
  return Hosted(runner);
}
