// pipecoord: the coordinator.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "daemon/base/log.h"
#include "daemon/base/shutdown.h"
#include "daemon/coordinator/server.h"
#include "proto/version.h"
#include "spdlog/spdlog.h"

int main(int argc, char** argv) {
  using pipework::CoordinatorServer;
  CoordinatorServer::Options options;
  std::string log_level = "info";
  CLI::App app{"pipecoord: takes jobs, plans them and runs them on nodes"};
  app.set_version_flag("--version", pipework::kVersion);
  app.add_option("--listen", options.listen,
                 "HOST:PORT to serve on; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--state-dir", options.state_dir,
                 "folder of jobs, logs and checkpoints")
      ->capture_default_str();
  app.add_option("--token-file", options.token_file,
                 "file with the token that every call has to bring; needed "
                 "for any address but loopback");
  app.add_option("--control-fd", options.control_fd,
                 "end when this inherited descriptor closes");
  app.add_option("--log-level", log_level, "debug, info, warning, error or off")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }

  const absl::Status log = pipework::InitLog("pipecoord", log_level);
  if (!log.ok()) {
    std::fprintf(stderr, "%s\n", std::string(log.message()).c_str());
    return 2;
  }
  pipework::ShutdownSignal::Install();
  auto server = CoordinatorServer::Start(options);
  if (!server.ok()) {
    spdlog::error("{}", std::string(server.status().message()));
    return 2;
  }
  std::printf("listening on %s\n", (*server)->address().c_str());
  std::fflush(stdout);
  (*server)->WaitUntilStopped();
  (*server)->Stop();
  return 0;
}
