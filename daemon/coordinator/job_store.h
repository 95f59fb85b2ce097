// The coordinator's durable state: jobs, attempts, events, request ids in
// SQLite (WAL, synchronous=FULL, one writer connection), logs and steps in
// files beside it. No gRPC, no threads. This is the read side; job_writer.h
// is the other.
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
#include "daemon/base/unique_fd.h"
#include "proto/coordinator.pb.h"

namespace pipework {

// Of state.db, in its user_version.
constexpr int kSchemaVersion = 1;

// The read side; `pipectl show|logs|checkpoint|jobs` use it without a server,
// and beside a running one.
class JobStoreReader {
 public:
  virtual ~JobStoreReader() = default;

  // Opens read-only; NotFound where there is no state in `state_dir`.
  // DataLoss: the database is damaged.
  static absl::StatusOr<std::unique_ptr<JobStoreReader>> Open(
      const std::string& state_dir);

  // Newest first.
  virtual absl::StatusOr<std::vector<v1::Job>> ListJobs() const = 0;
  // By id, unique prefix of at least 4 characters, or name/NAME (newest).
  // InvalidArgument: the prefix fits several jobs.
  virtual absl::StatusOr<v1::Job> FindJob(const std::string& ref) const = 0;
  virtual absl::StatusOr<std::vector<v1::JobEvent>> Events(
      const std::string& id) const = 0;
  // Lines after sequence number `after`, at most `limit` (0: all).
  virtual absl::StatusOr<std::vector<v1::LogLine>> Log(const std::string& id,
                                                       int64_t after,
                                                       int64_t limit) const = 0;
  // In order; where an attempt went back to a checkpoint, the later run of a
  // step replaces the earlier one.
  virtual absl::StatusOr<std::vector<v1::StepMetrics>> Steps(
      const std::string& id) const = 0;
};

// STATE/jobs/ID.
std::string JobFolder(const std::string& state_dir, const std::string& id);
std::string LogFile(const std::string& state_dir, const std::string& id);
std::string StepsFile(const std::string& state_dir, const std::string& id);

// Which of `jobs` (newest first) a reference names; the rules of FindJob.
// `exact`: no prefixes, and name/NAME only where one job has that name.
absl::StatusOr<size_t> FindReference(const std::vector<const v1::Job*>& jobs,
                                     const std::string& ref, bool exact);

// Reads a growing .jsonl file: each call gives the whole lines that have come
// since the call before.
class LogCursor {
 public:
  explicit LogCursor(std::string path) : path_(std::move(path)) {}

  // Lines with a sequence number above `after`, at most `limit` (0: all) of
  // them; none where the file is not there yet.
  absl::StatusOr<std::vector<v1::LogLine>> Next(int64_t after, int64_t limit);

 private:
  std::string path_;
  UniqueFd fd_;
  std::string rest_;  // what was read and not returned yet
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_JOB_STORE_H_
