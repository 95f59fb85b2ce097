// NodeDaemon is one machine's part of a cluster: it lists the machine's
// devices, keeps one session open to the coordinator, hosts runners, and
// carries checkpoints. Losing the session stops nothing; it dials again.
//
// Threads: an event loop that owns all state, a session thread, a heartbeat
// thread, two workers, and one thread for each runner.
#ifndef PIPEWORK_DAEMON_NODE_NODE_DAEMON_H_
#define PIPEWORK_DAEMON_NODE_NODE_DAEMON_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace pipework {

class NodeDaemon {
 public:
  struct Options {
    std::string coordinator = "127.0.0.1:7070";
    // Empty: the host's name.
    std::string name;
    std::string device_kind;  // of its cpu devices; empty: the processor's
    std::string state_dir = "pipework-node";
    // Address that other nodes' data planes dial. Empty: the one that this
    // machine uses towards the coordinator.
    std::string advertise;
    // Range of the data plane's ports, "41000-41015". Empty: any.
    std::string data_ports;
    // cpu devices to offer, and the cores they share. Empty: all that this
    // process may use.
    int devices = 1;
    std::vector<int> cores;
    // Memory of all cpu devices together, in bytes; 0: what the machine or
    // the control group allows.
    int64_t memory_bytes = 0;
    std::string token_file;
    // When this descriptor closes, everything ends. -1: none.
    int control_fd = -1;
    // Program to run; empty: pipe-runner beside this one.
    std::string runner;
    absl::Duration heartbeat_period = absl::Seconds(2);
    // Without a word from the coordinator for so long the session is dead.
    absl::Duration silence_limit = absl::Seconds(15);
    // For runners to end when the daemon is asked to leave.
    absl::Duration leave_limit = absl::Seconds(10);

    // InvalidArgument names the first option that cannot work, and why.
    absl::Status Validate() const;
  };

  // Errors: an option, a state folder in use, no pipe-runner, no devices.
  // The coordinator need not be there yet.
  static absl::StatusOr<std::unique_ptr<NodeDaemon>> Start(Options options);
  // Kills what still runs.
  ~NodeDaemon();

  const std::string& name() const;

  // Until a signal, or the control descriptor closes.
  void WaitUntilStopped();
  // `polite`: tells the coordinator, which saves what it can, and waits for
  // the runners up to leave_limit. Else they are ended at once.
  void Stop(bool polite);

 private:
  class Impl;
  explicit NodeDaemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "0-3,8" -> 0 1 2 3 8.
absl::StatusOr<std::vector<int>> ParseCores(const std::string& text);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_NODE_NODE_DAEMON_H_
