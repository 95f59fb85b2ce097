// The write side of the job store. One object per state folder; its caller
// makes all calls from one thread at a time.
//
// Cost: one commit is one fsync, about half a millisecond on a local disk.
#ifndef PIPEWORK_DAEMON_COORDINATOR_JOB_WRITER_H_
#define PIPEWORK_DAEMON_COORDINATOR_JOB_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/coordinator/job_record.pb.h"
#include "proto/coordinator.pb.h"

namespace pipework {

// A job as it is to be stored, and the events that go with the change.
struct JobChange {
  const v1::Job* job;
  const v1::JobRecord* record;
  std::vector<v1::JobEvent> events;
};

// A request that was answered: what it was and which job it made.
struct StoredRequest {
  std::string id;
  std::string hash;  // of the request's bytes
  std::string job;
};

// How far the reports of a node are durable.
struct NodeAck {
  uint64_t incarnation = 0;
  int64_t sequence = 0;
};

class JobWriter {
 public:
  struct StoredJob {
    v1::Job job;
    v1::JobRecord record;
  };

  // Opens STATE/state.db, makes it where it is not there, and brings an older
  // schema up. DataLoss: damaged; says how to go on. PermissionDenied:
  // read-only. Never makes an empty database in place of a damaged one.
  static absl::StatusOr<std::unique_ptr<JobWriter>> Open(
      const std::string& state_dir);
  virtual ~JobWriter() = default;

  // Oldest first.
  virtual absl::StatusOr<std::vector<StoredJob>> LoadJobs() = 0;
  virtual absl::StatusOr<std::map<std::string, NodeAck>> LoadAcks() = 0;

  // One transaction for all of it; durable when this returns OK, and nothing
  // of it is stored otherwise. Request ids older than a day are forgotten.
  virtual absl::Status Commit(absl::Span<const JobChange> jobs,
                              const std::map<std::string, NodeAck>& acks,
                              const std::optional<StoredRequest>& request,
                              absl::Time now) = 0;

  // The request of that id within the last day.
  virtual absl::StatusOr<std::optional<StoredRequest>> FindRequest(
      const std::string& id, absl::Time now) = 0;

  // A block of `count` command ids that no earlier process has used.
  virtual absl::StatusOr<int64_t> ReserveCommandIds(int64_t count) = 0;

  // Appends to log.jsonl and gives each line the next sequence number. Lines
  // of an earlier report of the same node and attempt are left out: a node
  // sends again what it does not know to be stored.
  virtual absl::Status AppendLog(const std::string& id,
                                 std::vector<v1::LogLine>* lines) = 0;
  // Appends to steps.jsonl.
  virtual absl::Status AppendSteps(
      const std::string& id,
      absl::Span<const v1::StepMetrics* const> steps) = 0;
  // Closes the files of a job that is over.
  virtual void CloseFiles(const std::string& id) = 0;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_JOB_WRITER_H_
