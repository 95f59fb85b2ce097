// SIGTERM and SIGINT as something to wait for. The first signal asks for an
// orderly end, the second ends the process at once (exit code 128 + signal).
#ifndef PIPEWORK_DAEMON_BASE_SHUTDOWN_H_
#define PIPEWORK_DAEMON_BASE_SHUTDOWN_H_

#include "absl/time/time.h"

namespace pipework {

// One for the process; any thread may call.
class ShutdownSignal {
 public:
  // Installs the handlers; SIGPIPE is ignored too. Later calls return the same
  // object.
  static ShutdownSignal& Install();

  // Readable from the first request on; do not read from it.
  int fd() const { return event_fd_; }
  bool requested() const;
  // The first signal's number; 0: none, or Request() was called.
  int signal_number() const;

  // Waits for a request; false at `deadline`.
  bool Wait(absl::Time deadline) const;

  // As if a first signal had come.
  void Request();

 private:
  ShutdownSignal();

  int event_fd_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_SHUTDOWN_H_
