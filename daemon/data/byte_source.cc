#include "daemon/data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/check.h"
#include "proto/errors.h"

namespace pipework {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(std::string path, int fd, const struct stat& info)
      : ByteSource(std::move(path)),
        fd_(fd),
        size_(static_cast<int64_t>(info.st_size)),
        written_(info.st_mtim) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { close(fd_); }

  int64_t size() const override { return size_; }

  absl::Status Read(int64_t offset, absl::Span<char> into) const override {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t got =
          pread(fd_, into.data() + done, into.size() - done,
                static_cast<off_t>(offset + static_cast<int64_t>(done)));
      if (got < 0 && errno == EINTR) continue;
      const int64_t at = offset + static_cast<int64_t>(done);
      if (got < 0) {
        return absl::DataLossError(
            absl::StrCat(name(), " at byte ", at,
                         ": cannot be read: ", std::strerror(errno)));
      }
      if (got == 0) {
        return absl::DataLossError(MismatchText(
            absl::StrCat(name(), " at byte ", at), "the file's size",
            absl::StrCat(at, " bytes"), absl::StrCat(size_, " bytes"),
            "it became shorter after it was opened: put it back and start "
            "again"));
      }
      done += static_cast<size_t>(got);
    }
    // Looked at after the bytes: other bytes were not there before it.
    struct stat now = {};
    if (fstat(fd_, &now) == 0 && (now.st_mtim.tv_sec != written_.tv_sec ||
                                  now.st_mtim.tv_nsec != written_.tv_nsec)) {
      return absl::DataLossError(absl::StrCat(
          name(), " at byte ", offset,
          ": the file was written to after it was opened; let it be while a "
          "job reads it, and start again"));
    }
    return absl::OkStatus();
  }

 private:
  const int fd_;
  const int64_t size_;
  const timespec written_;
};

class Memory final : public ByteSource {
 public:
  Memory(std::string name, std::string bytes)
      : ByteSource(std::move(name)), bytes_(std::move(bytes)) {}

  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }

  absl::Status Read(int64_t offset, absl::Span<char> into) const override {
    PIPE_CHECK(offset >= 0 &&
               offset + static_cast<int64_t>(into.size()) <= size());
    if (!into.empty()) {
      std::memcpy(into.data(), bytes_.data() + offset, into.size());
    }
    return absl::OkStatus();
  }

 private:
  const std::string bytes_;
};

class WindowSource final : public ByteSource {
 public:
  WindowSource(std::shared_ptr<const ByteSource> whole, std::string name,
               int64_t offset, int64_t size)
      : ByteSource(std::move(name)),
        whole_(std::move(whole)),
        offset_(offset),
        size_(size) {
    PIPE_CHECK(offset >= 0 && size >= 0 && offset <= whole_->size() - size);
  }

  int64_t size() const override { return size_; }

  absl::Status Read(int64_t offset, absl::Span<char> into) const override {
    return whole_->Read(offset_ + offset, into);
  }

 private:
  const std::shared_ptr<const ByteSource> whole_;
  const int64_t offset_;
  const int64_t size_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ByteSource>> OpenFile(
    const std::string& path) {
  // Not blocking: a named pipe without a writer would wait for ever.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    const std::string text =
        absl::StrCat(path, ": cannot be opened: ", std::strerror(error));
    if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
    return absl::InvalidArgumentError(text);
  }
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Mismatch(path, "its kind",
                    S_ISDIR(info.st_mode) ? "a folder" : "not a regular file",
                    "a regular file");
  }
  return std::make_shared<FileSource>(path, fd, info);
}

std::shared_ptr<const ByteSource> MemorySource(std::string name,
                                               std::string bytes) {
  return std::make_shared<Memory>(std::move(name), std::move(bytes));
}

std::shared_ptr<const ByteSource> Window(
    std::shared_ptr<const ByteSource> whole, std::string name, int64_t offset,
    int64_t size) {
  return std::make_shared<WindowSource>(std::move(whole), std::move(name),
                                        offset, size);
}

absl::Status ErrorAt(absl::string_view name, int64_t offset,
                     absl::string_view what, absl::string_view got,
                     absl::string_view wanted, absl::string_view remedy) {
  return Mismatch(absl::StrCat(name, " at byte ", offset), what, got, wanted,
                  remedy);
}

}  // namespace pipework
