// A child process that never outlives its parent.
#ifndef PIPEWORK_DAEMON_BASE_SUBPROCESS_H_
#define PIPEWORK_DAEMON_BASE_SUBPROCESS_H_

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/thread.h"
#include "daemon/base/unique_fd.h"

namespace pipework {

// Any thread may call.
class Subprocess {
 public:
  struct Options {
    std::string program;                         // path
    std::vector<std::string> args;               // without the program's name
    std::vector<std::string> extra_environment;  // "NAME=value"
    // Gives the child one end of a socket pair, and its descriptor's number in
    // the environment variable of this name; TakeChannel() is the other end.
    std::string channel_variable;
    // Standard output and error are appended to this file; "-": a pipe that
    // TakeOutput() reads; empty: inherited.
    std::string output_file;
    // SIGKILL for the child when this process ends, however it ends.
    bool dies_with_parent = true;
    // A process group of its own: Ctrl-C in a terminal does not reach it.
    bool own_group = true;
    // Called once when the child has ended, from a thread of this object; must
    // not destroy it.
    std::function<void(int wait_status)> on_exit;
  };

  // Standard input is /dev/null; every other descriptor is closed in the
  // child. NotFound, PermissionDenied: the program cannot be run.
  static absl::StatusOr<std::unique_ptr<Subprocess>> Spawn(Options options);

  // SIGKILL, and waits for the end.
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  // Once each; invalid where not asked for.
  UniqueFd TakeChannel() { return std::move(channel_); }
  UniqueFd TakeOutput() { return std::move(output_); }

  // The status of wait(2) once it has ended.
  std::optional<int> exit_status() const;
  // DeadlineExceeded: it still runs.
  absl::StatusOr<int> Wait(absl::Time deadline) const;
  // Nothing when it has ended.
  void Signal(int number) const;
  // SIGTERM, and SIGKILL after `grace`; returns the status of wait(2).
  int Stop(absl::Duration grace);

 private:
  Subprocess() = default;
  void Reap();

  pid_t pid_ = -1;
  UniqueFd channel_;
  UniqueFd output_;
  std::function<void(int)> on_exit_;
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  std::optional<int> status_;  // guarded by mutex_
  Thread reaper_;
};

// A wait(2) status in words: "exit 3", "signal 9 (Killed)".
std::string DescribeWaitStatus(int wait_status);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_SUBPROCESS_H_
