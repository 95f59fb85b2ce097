// piped: the daemon of one node.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "daemon/base/log.h"
#include "daemon/base/shutdown.h"
#include "daemon/node/node_daemon.h"
#include "proto/size_text.h"
#include "proto/version.h"
#include "spdlog/spdlog.h"

namespace {

void AddFlags(CLI::App& app, pipework::NodeDaemon::Options& options,
              std::string& cores, std::string& memory) {
  app.add_option("--coordinator", options.coordinator,
                 "HOST:PORT to register at")
      ->capture_default_str();
  app.add_option("--name", options.name,
                 "name of this node; default: the host's");
  app.add_option("--state-dir", options.state_dir, "folder for files of jobs")
      ->capture_default_str();
  app.add_option("--advertise", options.advertise,
                 "address that other nodes dial; default: the one this "
                 "machine uses towards the coordinator");
  app.add_option("--data-ports", options.data_ports,
                 "range of ports for data between nodes, FIRST-LAST");
  app.add_option("--devices", options.devices, "number of cpu devices to offer")
      ->capture_default_str();
  app.add_option("--cores", cores,
                 "cores they share, such as 0-3,8; default: all");
  app.add_option("--memory", memory,
                 "memory of all cpu devices together, such as 4GiB");
  app.add_option("--device-kind", options.device_kind,
                 "name of the kind of its cpu devices, which share profiles; "
                 "machines of one kind are equally fast (default: from the "
                 "processor)");
  app.add_option("--token-file", options.token_file,
                 "file with the coordinator's token");
  app.add_option("--control-fd", options.control_fd,
                 "end when this inherited descriptor closes");
}

int Refuse(const absl::Status& status) {
  spdlog::error("{}", std::string(status.message()));
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  pipework::NodeDaemon::Options options;
  std::string cores, memory, log_level = "info";
  CLI::App app{"piped: offers this machine's devices to a coordinator"};
  app.set_version_flag("--version", pipework::kVersion);
  AddFlags(app, options, cores, memory);
  app.add_option("--log-level", log_level, "debug, info, warning, error or off")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }

  const absl::Status log = pipework::InitLog("piped", log_level);
  if (!log.ok()) return Refuse(log);
  pipework::ShutdownSignal::Install();
  if (!cores.empty()) {
    auto list = pipework::ParseCores(cores);
    if (!list.ok()) return Refuse(list.status());
    options.cores = *list;
  }
  if (!memory.empty()) {
    auto bytes = pipework::ParseSize("--memory", memory);
    if (!bytes.ok()) return Refuse(bytes.status());
    options.memory_bytes = *bytes;
  }
  auto daemon = pipework::NodeDaemon::Start(options);
  if (!daemon.ok()) return Refuse(daemon.status());
  (*daemon)->WaitUntilStopped();
  return 0;
}
