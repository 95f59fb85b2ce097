#include "daemon/base/framing.h"

#include <fcntl.h>
#include <google/protobuf/message_lite.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr size_t kHeaderBytes = 4;

void PutLength(uint32_t value, char* to) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<char>(value >> (8 * i));
}

uint32_t GetLength(const char* from) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<unsigned char>(from[i])} << (8 * i);
  }
  return value;
}

// Waits for `events`; false at the deadline.
bool Poll(int fd, short events, absl::Time deadline) {
  for (;;) {
    pollfd entry = {fd, events, 0};
    if (::poll(&entry, 1, PollTimeout(deadline)) > 0) return true;
    if (MonotonicNow() >= deadline) return false;
  }
}

}  // namespace

FrameChannel::FrameChannel(UniqueFd fd, std::string who)
    : fd_(std::move(fd)), who_(std::move(who)) {
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
  ::fcntl(fd_.get(), F_SETFD, FD_CLOEXEC);
}

absl::Status FrameChannel::Send(const google::protobuf::MessageLite& message,
                                absl::Time deadline) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > kMaxBytes) {
    return Mismatch(who_, absl::StrCat("a ", message.GetTypeName(), " to send"),
                    absl::StrCat(bytes, " bytes"),
                    absl::StrCat("at most ", kMaxBytes, " bytes"));
  }
  std::string frame(kHeaderBytes, '\0');
  PutLength(static_cast<uint32_t>(bytes), &frame[0]);
  message.AppendToString(&frame);

  std::lock_guard<std::mutex> lock(send_mutex_);
  if (send_broken_) {
    return absl::UnavailableError(
        absl::StrCat(who_, ": the channel was broken by an earlier send"));
  }
  size_t sent = 0;
  while (sent < frame.size()) {
    const ssize_t n = ::send(fd_.get(), frame.data() + sent,
                             frame.size() - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      send_broken_ = true;
      return absl::UnavailableError(absl::StrCat(
          who_, ": the other end is gone: ", std::strerror(errno)));
    }
    if (!Poll(fd_.get(), POLLOUT, deadline)) {
      send_broken_ = sent > 0;
      return absl::DeadlineExceededError(absl::StrCat(
          who_, ": the other end took ", sent, " of ", frame.size(),
          " bytes of a ", message.GetTypeName(), " by the deadline"));
    }
  }
  return absl::OkStatus();
}

absl::Status FrameChannel::Fill(size_t wanted, absl::Time deadline) {
  // Grown as bytes come: a length alone makes nobody allocate.
  constexpr size_t kPiece = 256 << 10;
  while (received_.size() < wanted) {
    const size_t have = received_.size();
    const size_t ask = std::min(wanted - have, kPiece);
    received_.resize(have + ask);
    const ssize_t n = ::recv(fd_.get(), &received_[have], ask, 0);
    const int error = errno;
    received_.resize(have + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n > 0 || (n < 0 && error == EINTR)) continue;
    if (n < 0 && (error == EAGAIN || error == EWOULDBLOCK)) {
      if (Poll(fd_.get(), POLLIN, deadline)) continue;
      return absl::DeadlineExceededError(
          absl::StrCat(who_, ": no message came by the deadline"));
    }
    // A peer that was killed with unread bytes resets: an end like any other.
    if (n == 0 || error == ECONNRESET || error == EPIPE) {
      if (received_.empty()) {
        return absl::OutOfRangeError(
            absl::StrCat(who_, ": the other end closed the channel"));
      }
      return absl::DataLossError(
          absl::StrCat(who_, ": the other end closed the channel after ", have,
                       " of ", wanted, " bytes of a message"));
    }
    return absl::UnavailableError(
        absl::StrCat(who_, ": receive: ", std::strerror(error)));
  }
  return absl::OkStatus();
}

absl::Status FrameChannel::Receive(google::protobuf::MessageLite* message,
                                   absl::Time deadline) {
  RETURN_IF_ERROR(Fill(kHeaderBytes, deadline));
  const size_t bytes = GetLength(received_.data());
  if (bytes > kMaxBytes) {
    return absl::DataLossError(MismatchText(
        who_, "the length of a message", absl::StrCat(bytes, " bytes"),
        absl::StrCat("at most ", kMaxBytes, " bytes")));
  }
  RETURN_IF_ERROR(Fill(kHeaderBytes + bytes, deadline));
  const bool parsed = message->ParseFromArray(received_.data() + kHeaderBytes,
                                              static_cast<int>(bytes));
  received_.clear();
  if (received_.capacity() > (1 << 20)) received_.shrink_to_fit();
  if (!parsed) {
    return absl::DataLossError(absl::StrCat(
        who_, ": ", bytes, " bytes came that are no ", message->GetTypeName()));
  }
  return absl::OkStatus();
}

void FrameChannel::Shutdown() { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace pipework
