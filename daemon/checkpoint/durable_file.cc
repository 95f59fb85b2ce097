#include "daemon/checkpoint/durable_file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/failpoint.h"
#include "daemon/base/paths.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {

struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) {
    PIPE_CHECK(context != nullptr);
    PIPE_CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  }
  ~State() { EVP_MD_CTX_free(context); }
  EVP_MD_CTX* const context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;

void Sha256::Add(absl::string_view bytes) {
  PIPE_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) ==
             1);
}

std::string Sha256::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  PIPE_CHECK(EVP_DigestFinal_ex(state_->context, digest, &bytes) == 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), bytes));
}

DurableFile::DurableFile(std::string path, std::string temporary, UniqueFd fd)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      fd_(std::move(fd)) {}

absl::StatusOr<DurableFile> DurableFile::Create(const std::string& path) {
  RETURN_IF_ERROR(WithContext(path, FAILPOINT("checkpoint.io")));
  static std::atomic<int> counter{0};
  std::string temporary =
      absl::StrCat(path, ".tmp-", ::getpid(), "-", counter++);
  UniqueFd fd(::open(temporary.c_str(),
                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus("open", temporary, errno);
  return DurableFile(path, std::move(temporary), std::move(fd));
}

DurableFile::~DurableFile() {
  if (fd_.valid()) ::unlink(temporary_.c_str());
}

absl::Status DurableFile::Append(absl::string_view bytes) {
  RETURN_IF_ERROR(WithContext(path_, FAILPOINT("checkpoint.io")));
  hash_.Add(bytes);
  bytes_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("write", path_, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DurableFile::Commit() {
  RETURN_IF_ERROR(WithContext(path_, FAILPOINT("checkpoint.io")));
  if (::fsync(fd_.get()) != 0) return ErrnoStatus("fsync", path_, errno);
  RETURN_IF_ERROR(WithContext(path_, FAILPOINT("checkpoint.io")));
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus("rename to", path_, errno);
  }
  fd_.Close();
  absl::Status synced = WithContext(path_, FAILPOINT("checkpoint.io"));
  if (synced.ok()) synced = FsyncFolder(FolderOf(path_));
  if (!synced.ok()) {
    ::unlink(path_.c_str());
    return synced;
  }
  return hash_.Finish();
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus("open", path, errno);
  Sha256 hash;
  std::vector<char> piece(1 << 20);
  for (;;) {
    const ssize_t n = ::read(fd.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read", path, errno);
    if (n == 0) return hash.Finish();
    hash.Add(absl::string_view(piece.data(), static_cast<size_t>(n)));
  }
}

}  // namespace pipework
