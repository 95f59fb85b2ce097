// JobBoard is where the engine's thread hangs out what it knows, and where
// everybody else reads it: job snapshots, steps, events, nodes. Readers never
// wait for the engine, nor the engine for a reader.
//
// Memory:  a snapshot of each job, the events of all, and the last
//          kKeptSteps steps of the jobs that are not over.
// Threads: any; std::mutex inside.
#ifndef PIPEWORK_DAEMON_COORDINATOR_BOARD_H_
#define PIPEWORK_DAEMON_COORDINATOR_BOARD_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "proto/coordinator.pb.h"

namespace pipework {

using JobSnapshot = std::shared_ptr<const v1::Job>;

class JobBoard {
 public:
  static constexpr size_t kKeptSteps = 200000;

  explicit JobBoard(const Clock& clock) : clock_(clock) {}

  // ---- the engine's side ----

  // The job as it stands now, what has come since the last Put.
  void Put(JobSnapshot job, const std::vector<v1::StepMetrics>& steps,
           const std::vector<v1::JobEvent>& events);
  void PutNodes(std::vector<v1::Node> nodes);
  // Why nothing can be stored; empty: all is well.
  void SetTrouble(const std::string& trouble);
  // Ends every wait, now and later.
  void Close();

  // ---- everybody's side ----

  // By id, unique prefix or name/NAME; see FindReference.
  absl::StatusOr<JobSnapshot> Find(const std::string& ref, bool exact) const;
  // Newest first.
  std::vector<JobSnapshot> List() const;
  std::vector<v1::Node> Nodes() const;
  std::string Trouble() const;
  bool closed() const;

  // How far a watcher has read one job; opaque.
  struct Position {
    int64_t revision = -1;
    int64_t steps = 0;
    int64_t events = 0;
  };
  struct Update {
    JobSnapshot job;  // always set
    std::vector<v1::StepMetrics> steps;
    std::vector<v1::JobEvent> events;
    bool missed_steps = false;  // the watcher was too slow for some
  };
  // What is new for `position`, at most `limit` steps; moves it on. Nothing
  // when nothing is. REQUIRES: the job exists.
  bool Next(const std::string& id, int64_t limit, Position* position,
            Update* update) const;

  // Waits until anything changes after `seen` (a number from Change()), at
  // most until `deadline`; returns the newest number.
  int64_t Change() const;
  int64_t WaitForChange(int64_t seen, absl::Time deadline) const;

 private:
  struct Entry {
    JobSnapshot job;
    std::deque<v1::StepMetrics> steps;
    int64_t first_step = 0;  // number of steps dropped before
    std::vector<v1::JobEvent> events;
  };

  const Clock& clock_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  int64_t change_ = 0;
  bool closed_ = false;
  std::string trouble_;
  std::map<std::string, Entry> entries_;
  std::vector<std::string> order_;  // oldest first
  std::vector<v1::Node> nodes_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_BOARD_H_
