// CoordinatorServer is the whole process but for its flags: lock file, core,
// services, listener.
#ifndef PIPEWORK_DAEMON_COORDINATOR_SERVER_H_
#define PIPEWORK_DAEMON_COORDINATOR_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/coordinator/cluster.h"

namespace pipework {

class CoordinatorServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:7070";
    std::string state_dir = "pipework-state";
    std::string token_file;
    // When this descriptor closes, everything ends. -1: none.
    int control_fd = -1;
    // Writes STATE/coordinator.address.
    bool announce = true;
    LeaseLimits leases;

    // InvalidArgument names the first option that cannot work, and why.
    absl::Status Validate() const;
  };

  // Errors are one line and name the option that would help: a port or a
  // state folder in use, a damaged or read-only database, a bad token file.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(
      Options options, const Clock& clock = Clock::Real());
  // Ends as Stop does.
  ~CoordinatorServer();

  // HOST:PORT, with the port that was chosen.
  const std::string& address() const;

  // Until a signal, or the control descriptor closes.
  void WaitUntilStopped();
  // Health to NOT_SERVING, streams end, five seconds for calls in flight.
  void Stop();

 private:
  struct State;
  explicit CoordinatorServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_SERVER_H_
