// UniqueFd owns a file descriptor and closes it.
#ifndef PIPEWORK_DAEMON_BASE_UNIQUE_FD_H_
#define PIPEWORK_DAEMON_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace pipework {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { Close(); }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_UNIQUE_FD_H_
