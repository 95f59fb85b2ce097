// ScriptedNode is a node daemon of a test: it answers the coordinator's
// messages as piped and pipe-runner would, without a process or a file. What
// it does not do by itself, the test makes it say.
//
// Threads: none; its owner calls it from one thread at a time.
#ifndef PIPEWORK_DAEMON_COORDINATOR_SCRIPTED_NODE_H_
#define PIPEWORK_DAEMON_COORDINATOR_SCRIPTED_NODE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"

namespace pipework {

class ScriptedNode {
 public:
  struct Options {
    std::string name = "n1";
    int devices = 2;
    uint64_t incarnation = 1;
    bool has_data = true;
    std::string address = "127.0.0.1";
    // Of its devices: the first ones are of these kinds, others of the last.
    std::vector<std::string> kinds = {"cpu x1 test"};
    // So many of its next profiles are noisy.
    int noisy_profiles = 0;
    bool measures_links = true;
    double link_bytes_per_second = 2e9;
    // What it leaves undone, for a test to do later or never.
    bool answers_profile = true;
    bool gets_ready = true;
    bool gets_running = true;
    bool obeys_stop = true;
  };
  explicit ScriptedNode(Options options) : options_(std::move(options)) {}

  const std::string& name() const { return options_.name; }
  Options& options() { return options_; }

  v1::Hello Hello() const;
  // What to send back.
  std::vector<v1::NodeMessage> Handle(const v1::CoordinatorMessage& message);
  // A session begins anew: what is not acknowledged is sent again.
  std::vector<v1::NodeMessage> Unacknowledged() const;

  // ---- what a test makes it say; each is a kept report ----

  v1::NodeMessage Report(const std::string& job, int attempt,
                         v1::RunnerReport report);
  v1::NodeMessage Progress(const std::string& job, int attempt, int64_t step,
                           int64_t steps_in_it);
  v1::NodeMessage Ended(const std::string& job, int attempt, int code,
                        const std::string& reason, const std::string& message,
                        bool first_cause);
  v1::NodeMessage Finished(const std::string& job, int attempt, bool leader);
  v1::NodeMessage Gone(const std::string& job, int attempt, int wait_status);

  // Runners that live here.
  std::set<std::pair<std::string, int>> runners;
  // Commands seen, by kind.
  std::vector<v1::CoordinatorMessage> seen;
  int CountSeen(v1::CoordinatorMessage::BodyCase kind) const;
  int64_t acknowledged = 0;

 private:
  v1::NodeMessage Keep(v1::NodeMessage message);
  v1::NodeMessage Answer(int64_t command, int code, const std::string& text);

  Options options_;
  int64_t next_sequence_ = 1;
  std::map<int64_t, v1::NodeMessage> kept_;
  std::set<int64_t> done_;  // commands
  v1::RunnerLinks links_;
};

// A small job that needs `stages` devices, and what its data would hold.
v1::JobSpec ScriptedSpec(const std::string& name, int stages);
v1::DataFacts ScriptedFacts();

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_SCRIPTED_NODE_H_
