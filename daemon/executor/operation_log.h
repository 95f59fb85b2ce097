// OperationLog records every operation of one executor: what it was, which
// unit it was for, which weight version it read and which it wrote. Properties
// of a schedule or a policy are queries over it, and a serial replay of it
// gives the same weights.
//
// Memory:  a ring of `capacity` records; the file, where asked for, has all.
// Threads: the executor's thread appends; any thread may take a snapshot.
#ifndef PIPEWORK_DAEMON_EXECUTOR_OPERATION_LOG_H_
#define PIPEWORK_DAEMON_EXECUTOR_OPERATION_LOG_H_

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace pipework {

struct OperationRecord {
  // F, B, U, A (all-reduce), R, E, D or S.
  char operation = ' ';
  int64_t number = 0;     // of the unit; of the update for U and A
  int64_t minibatch = 0;  // U, A: the last minibatch of the update
  int microbatch = 0;
  int64_t version_read = -1;     // -1: none
  int64_t version_written = -1;  // -1: none

  friend bool operator==(const OperationRecord& a, const OperationRecord& b) {
    return a.operation == b.operation && a.number == b.number &&
           a.minibatch == b.minibatch && a.microbatch == b.microbatch &&
           a.version_read == b.version_read &&
           a.version_written == b.version_written;
  }
};

// F 41 41 0 38 -1
std::string ToString(const OperationRecord& record);

class OperationLog {
 public:
  explicit OperationLog(int capacity);
  ~OperationLog();
  OperationLog(const OperationLog&) = delete;
  OperationLog& operator=(const OperationLog&) = delete;

  // From now on every record is also written to `path`, one a line in the form
  // of ToString. Unavailable names file and cause.
  absl::Status OpenFile(const std::string& path);

  // A write that fails is reported by CloseFile, not here.
  void Append(const OperationRecord& record);

  // Flushes and closes the file. Unavailable names file and cause of the first
  // write that failed. OK where no file is open.
  absl::Status CloseFile();

  // The newest records, oldest first.
  std::vector<OperationRecord> Snapshot() const;
  // Records appended so far.
  int64_t appended() const;

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<OperationRecord> ring_;  // guarded by mutex_
  int64_t appended_ = 0;               // guarded by mutex_
  std::FILE* file_ = nullptr;          // the executor's
  std::string path_;
  bool write_failed_ = false;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_OPERATION_LOG_H_
