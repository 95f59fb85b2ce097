// A file that one process at a time may hold; the kernel lets go of it when
// the process dies.
#ifndef PIPEWORK_DAEMON_BASE_LOCK_FILE_H_
#define PIPEWORK_DAEMON_BASE_LOCK_FILE_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/base/unique_fd.h"

namespace pipework {

class LockFile {
 public:
  // Locks `path`, making it where needed, and writes this process's id into
  // it. FailedPrecondition: another process holds it; names its id.
  static absl::StatusOr<LockFile> Acquire(const std::string& path);

  LockFile(LockFile&&) = default;
  LockFile& operator=(LockFile&&) = default;

 private:
  explicit LockFile(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_LOCK_FILE_H_
