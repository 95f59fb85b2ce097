// A file that appears whole and durable, or not at all.
#ifndef PIPEWORK_DAEMON_CHECKPOINT_DURABLE_FILE_H_
#define PIPEWORK_DAEMON_CHECKPOINT_DURABLE_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/base/unique_fd.h"

namespace pipework {

// SHA-256 as bytes come. One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;

  void Add(absl::string_view bytes);
  // In hexadecimal; the object is of no further use.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Every step asks the failpoint checkpoint.io first.
class DurableFile {
 public:
  // Opens a temporary file beside `path`.
  static absl::StatusOr<DurableFile> Create(const std::string& path);
  DurableFile(DurableFile&&) = default;
  // Without Commit, the temporary file is removed.
  ~DurableFile();

  absl::Status Append(absl::string_view bytes);
  int64_t bytes() const { return bytes_; }

  // fsync, rename to `path`, fsync of the folder. After an error there is
  // no new file at `path`. Returns the hash of what was appended.
  absl::StatusOr<std::string> Commit();

 private:
  DurableFile(std::string path, std::string temporary, UniqueFd fd);

  std::string path_;
  std::string temporary_;
  UniqueFd fd_;
  Sha256 hash_;
  int64_t bytes_ = 0;
};

// NotFound, Unavailable: names the file.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_CHECKPOINT_DURABLE_FILE_H_
