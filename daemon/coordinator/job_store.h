// The coordinator's durable state: jobs, attempts, events, request ids in
// SQLite (WAL, synchronous=FULL, one writer connection), logs and steps in
// files beside it. No gRPC, no threads: the caller serialises writes.
//
//   STATE/state.db
//   STATE/jobs/ID/log.jsonl        one LogLine a line
//   STATE/jobs/ID/steps.jsonl      one StepMetrics a line
//   STATE/jobs/ID/checkpoints/step-N/...
#ifndef PIPEWORK_DAEMON_COORDINATOR_JOB_STORE_H_
#define PIPEWORK_DAEMON_COORDINATOR_JOB_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"

namespace pipework {

// The read side; `pipectl show|logs|checkpoint|jobs` use it without a server.
class JobStoreReader {
 public:
  virtual ~JobStoreReader() = default;

  // Opens read-only; NotFound where there is no state in `state_dir`.
  static absl::StatusOr<std::unique_ptr<JobStoreReader>> Open(
      const std::string& state_dir);

  // Newest first.
  virtual absl::StatusOr<std::vector<v1::Job>> ListJobs() const = 0;
  // By id, unique prefix of at least 4 characters, or name/NAME (newest).
  virtual absl::StatusOr<v1::Job> FindJob(const std::string& ref) const = 0;
  virtual absl::StatusOr<std::vector<v1::JobEvent>> Events(
      const std::string& id) const = 0;
  // Lines after sequence number `after`, at most `limit` (0: all).
  virtual absl::StatusOr<std::vector<v1::LogLine>> Log(const std::string& id,
                                                       int64_t after,
                                                       int64_t limit) const = 0;
  virtual absl::StatusOr<std::vector<v1::StepMetrics>> Steps(
      const std::string& id) const = 0;
};

// STATE/jobs/ID.
std::string JobFolder(const std::string& state_dir, const std::string& id);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_JOB_STORE_H_
