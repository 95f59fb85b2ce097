#include "daemon/base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/paths.h"

namespace pipework {

absl::StatusOr<LockFile> LockFile::Acquire(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus("open", path, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus("lock", path, errno);
    const std::string holder(absl::StripAsciiWhitespace(TailOfFile(path, 32)));
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": locked by process ", holder.empty() ? "unknown" : holder,
        ", expected to be free; stop that process or use another folder"));
  }
  const std::string pid = absl::StrCat(::getpid(), "\n");
  if (::ftruncate(fd.get(), 0) != 0 ||
      ::pwrite(fd.get(), pid.data(), pid.size(), 0) !=
          static_cast<ssize_t>(pid.size())) {
    return ErrnoStatus("write", path, errno);
  }
  return LockFile(std::move(fd));
}

}  // namespace pipework
