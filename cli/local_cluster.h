// A coordinator and node daemons on this machine, as real processes.
//
// Each holds the read end of a control pipe whose write end is here: when this
// process dies, however it dies, they see it and end everything within 15 s.
#ifndef PIPEWORK_CLI_LOCAL_CLUSTER_H_
#define PIPEWORK_CLI_LOCAL_CLUSTER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pipework {

class LocalCluster {
 public:
  struct Options {
    std::string state_dir = "pipework-state";
    int nodes = 2;
    int devices_per_node = 2;
    std::string listen = "127.0.0.1:0";
    // InvalidArgument names the option.
    absl::Status Validate() const;
  };

  // Starts everything and returns when all nodes are READY. Unavailable names
  // the process that did not come up, with its last words.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(Options options);

  // Ends it: SIGTERM, and SIGKILL for what is left after 15 s.
  ~LocalCluster();

  // HOST:PORT of the coordinator.
  const std::string& server() const { return server_; }

  // Looks whether processes have died: a coordinator is started again on its
  // port (Unavailable after five times within a minute); a dead daemon is
  // only reported.
  absl::Status Tend();
  // What Tend saw since the last call, one line each.
  std::vector<std::string> TakeNotes();

  // Ends all processes, waiting at most `seconds` before SIGKILL.
  void Stop(double seconds);

 private:
  struct Process {
    std::string name;
    std::vector<std::string> arguments;
    std::string log;     // its stdout and stderr
    pid_t pid = -1;      // -1: has ended
    int control = -1;    // write end of its control pipe
    double started = 0;  // monotonic seconds
  };

  explicit LocalCluster(Options options) : options_(std::move(options)) {}
  absl::Status Launch(Process* process);
  absl::Status AwaitAddress();
  absl::Status AwaitNodes();
  // Whether it has ended; reaps it and says how.
  bool HasEnded(Process* process, std::string* how);
  std::string LastWords(const Process& process) const;
  // Unavailable; UsageError where it refused its flags or its folder.
  absl::Status EndedAtStart(const Process& process,
                            const std::string& how) const;

  Options options_;
  std::string server_;
  std::vector<Process> processes_;  // the coordinator first
  std::vector<std::string> notes_;
  std::vector<double> restarts_;
};

// The binary `name` beside this one. NotFound says where it was looked for.
absl::StatusOr<std::string> SiblingBinary(const std::string& name);

// Cores this process may run on.
std::vector<int> AllowedCores();

// Monotonic seconds.
double MonotonicSeconds();

}  // namespace pipework

#endif  // PIPEWORK_CLI_LOCAL_CLUSTER_H_
