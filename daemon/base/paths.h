// Files and folders, with errors that name them.
#ifndef PIPEWORK_DAEMON_BASE_PATHS_H_
#define PIPEWORK_DAEMON_BASE_PATHS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pipework {

// "a" and "b" -> "a/b"; an absolute `name` stands alone.
std::string JoinPath(absl::string_view folder, absl::string_view name);
// Without the last part; "." where there is no slash.
std::string FolderOf(absl::string_view path);

// Absolute, against the working folder; not resolved further.
std::string AbsolutePath(absl::string_view path);

// The program `name` in the folder of the running program. NotFound says
// where it was looked for.
absl::StatusOr<std::string> SiblingBinary(absl::string_view name);

bool FileExists(const std::string& path);

// Makes `path` and its parents, mode 0755; fine where it exists.
absl::Status MakeFolders(const std::string& path);

// NotFound: no such file. ResourceExhausted: larger than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes = int64_t{1} << 30);
// The last `bytes` of it; "" where it cannot be read.
std::string TailOfFile(const std::string& path, int64_t bytes);

// Whole or not at all, and on the disk when this returns: temporary name,
// fsync, rename, fsync of the folder.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view contents, int mode = 0644);

// Makes the entries of a folder durable.
absl::Status FsyncFolder(const std::string& path);

// Removes a file or a whole folder; does not follow links. Fine where there is
// nothing.
absl::Status RemoveTree(const std::string& path);

// "<what> <path>: <text of error_number>" with the code that fits it.
absl::Status ErrnoStatus(absl::string_view what, absl::string_view path,
                         int error_number);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_PATHS_H_
