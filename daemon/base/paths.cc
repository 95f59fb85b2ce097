#include "daemon/base/paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "proto/status_macros.h"

namespace pipework {

namespace fs = std::filesystem;

absl::Status ErrnoStatus(absl::string_view what, absl::string_view path,
                         int error_number) {
  const std::string text =
      absl::StrCat(what, " ", path, ": ", std::strerror(error_number));
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  if (folder.empty() || absl::StartsWith(name, "/")) return std::string(name);
  if (absl::EndsWith(folder, "/")) return absl::StrCat(folder, name);
  return absl::StrCat(folder, "/", name);
}

std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

std::string AbsolutePath(absl::string_view path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(std::string(path), error);
  return error ? std::string(path) : absolute.lexically_normal().string();
}

absl::StatusOr<std::string> SiblingBinary(absl::string_view name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return ErrnoStatus("read", "/proc/self/exe", error.value());
  const std::string path = JoinPath(self.parent_path().string(), name);
  if (::access(path.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat(
        name, ": there is no such program beside ", self.filename().string(),
        " in ", self.parent_path().string(),
        "; install all four binaries into one folder"));
  }
  return path;
}

bool FileExists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return ErrnoStatus("make folder", path, error.value());
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("open", path, errno);
  std::string contents;
  constexpr size_t kPiece = 1 << 18;
  for (;;) {
    const size_t have = contents.size();
    contents.resize(have + kPiece);
    const ssize_t n = ::read(fd.get(), &contents[have], kPiece);
    const int error = errno;
    contents.resize(have + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n < 0 && error == EINTR) continue;
    if (n < 0) return ErrnoStatus("read", path, error);
    if (n == 0) return contents;
    if (static_cast<int64_t>(contents.size()) > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "read ", path, ": the file has over ", max_bytes, " bytes"));
    }
  }
}

std::string TailOfFile(const std::string& path, int64_t bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return "";
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  if (size <= 0) return "";
  const off_t from = size > bytes ? size - bytes : 0;
  std::string tail(static_cast<size_t>(size - from), '\0');
  const ssize_t n = ::pread(fd.get(), &tail[0], tail.size(), from);
  tail.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return tail;
}

absl::Status FsyncFolder(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("open folder", path, errno);
  if (::fsync(fd.get()) != 0) return ErrnoStatus("fsync folder", path, errno);
  return absl::OkStatus();
}

namespace {

absl::Status WriteAndSync(const std::string& path, absl::string_view contents,
                          int mode) {
  UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!fd.valid()) return ErrnoStatus("open", path, errno);
  while (!contents.empty()) {
    const ssize_t n = ::write(fd.get(), contents.data(), contents.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("write", path, errno);
    contents.remove_prefix(static_cast<size_t>(n));
  }
  if (::fsync(fd.get()) != 0) return ErrnoStatus("fsync", path, errno);
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view contents, int mode) {
  // Two writers of one file must not share a temporary name.
  static std::atomic<int> counter{0};
  const std::string temporary =
      absl::StrCat(path, ".tmp-", ::getpid(), "-", counter++);
  absl::Status status = WriteAndSync(temporary, contents, mode);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus("rename to", path, errno);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return FsyncFolder(FolderOf(path));
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return ErrnoStatus("remove", path, error.value());
  return absl::OkStatus();
}

}  // namespace pipework
