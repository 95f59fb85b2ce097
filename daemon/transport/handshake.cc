#include "daemon/transport/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/transport/socket.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr size_t kMostStrangers = 64;
constexpr absl::Duration kHelloLimit = absl::Seconds(5);

absl::Status SendAll(int fd, absl::string_view bytes, absl::Time deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) {
      return absl::UnavailableError(std::strerror(errno));
    }
    pollfd entry = {fd, POLLOUT, 0};
    ::poll(&entry, 1, PollTimeout(deadline));
    if (MonotonicNow() >= deadline) {
      return absl::DeadlineExceededError("the hello was not taken");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHello(const Hello& self, const Hello& hello) {
  const auto refuse = [](absl::string_view what, auto got, auto wanted) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the ", what, " of its hello is ", got, ", expected ", wanted));
  };
  if (hello.job != self.job) return refuse("job", hello.job, self.job);
  if (hello.attempt != self.attempt) {
    return refuse("attempt", hello.attempt, self.attempt);
  }
  if (hello.nonce != self.nonce) {
    return refuse("nonce", "another", "the one of this attempt");
  }
  return absl::OkStatus();
}

absl::StatusOr<Dialled> DialAndGreet(const std::string& address,
                                     const Hello& self, absl::Time deadline) {
  Dialled dialled;
  ASSIGN_OR_RETURN(dialled.socket, Dial(address, deadline));
  const int fd = dialled.socket.get();
  RETURN_IF_ERROR(
      WithContext(address, SendAll(fd, EncodeHello(self), deadline)));
  std::string unread;
  Greeting greeting;
  for (;;) {
    char bytes[4096];
    const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
    if (n == 0) {
      return absl::UnavailableError(
          absl::StrCat(address, ": closed the connection without an answer"));
    }
    if (n > 0) {
      unread.append(bytes, static_cast<size_t>(n));
      const auto taken = TakeGreeting(&unread, &greeting);
      if (!taken.ok()) {
        return absl::UnavailableError(
            absl::StrCat(address, ": ", taken.status().message()));
      }
      if (*taken) break;
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) {
      return absl::UnavailableError(
          absl::StrCat(address, ": ", std::strerror(errno)));
    }
    if (MonotonicNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          address, ": took the call but did not answer the hello"));
    }
    pollfd entry = {fd, POLLIN, 0};
    ::poll(&entry, 1, PollTimeout(deadline));
  }
  if (greeting.kind == GreetingKind::kRefused) {
    return absl::PermissionDeniedError(
        absl::StrCat("it refused: ", greeting.body.substr(0, 500)));
  }
  if (greeting.kind != GreetingKind::kHello) {
    return absl::UnavailableError(absl::StrCat(address, ": left at once"));
  }
  auto hello = DecodeHello(greeting.body);
  if (!hello.ok()) return absl::PermissionDeniedError(hello.status().message());
  dialled.hello = *std::move(hello);
  RETURN_IF_ERROR(CheckHello(self, dialled.hello));
  if (dialled.hello.address != address) {
    return absl::PermissionDeniedError(
        absl::StrCat("the address of its hello is ", dialled.hello.address,
                     ", expected ", address));
  }
  return dialled;
}

void Handshakes::AddTo(std::vector<pollfd>* entries) const {
  // With too many strangers, more wait in the kernel.
  const bool room = strangers_.size() < kMostStrangers;
  entries->push_back({room ? listener_.get() : -1, POLLIN, 0});
  for (const Stranger& stranger : strangers_) {
    entries->push_back({stranger.socket.get(), POLLIN, 0});
  }
}

absl::Time Handshakes::next_deadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Stranger& stranger : strangers_) {
    next = std::min(next, stranger.deadline);
  }
  return next;
}

void Handshakes::Handle(absl::Span<const pollfd> entries) {
  const absl::Time now = MonotonicNow();
  size_t i = 1;
  for (auto it = strangers_.begin(); it != strangers_.end(); ++i) {
    bool settled = entries[i].revents != 0 && Read(*it);
    if (!settled && now >= it->deadline) {
      refused_.push_back({it->from, "it said no hello in 5 s"});
      settled = true;
    }
    it = settled ? strangers_.erase(it) : std::next(it);
  }
  if (entries[0].revents != 0) Accept();
}

void Handshakes::Accept() {
  while (strangers_.size() < kMostStrangers) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) return;
    TuneSocket(socket.get());
    Stranger stranger;
    stranger.from = PeerName(socket.get());
    stranger.socket = std::move(socket);
    stranger.deadline = MonotonicNow() + kHelloLimit;
    strangers_.push_back(std::move(stranger));
  }
}

bool Handshakes::Read(Stranger& stranger) {
  const auto refuse = [&](absl::string_view why, bool tell) {
    if (tell) {
      const std::string bytes = EncodeRefusal(why);
      const ssize_t ignored = ::send(stranger.socket.get(), bytes.data(),
                                     bytes.size(), MSG_NOSIGNAL);
      (void)ignored;
    }
    refused_.push_back({stranger.from, std::string(why)});
    return true;
  };
  char bytes[4096];
  const ssize_t n = ::recv(stranger.socket.get(), bytes, sizeof bytes, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) return refuse("it closed the connection before a hello", false);
  stranger.unread.append(bytes, static_cast<size_t>(n));
  Greeting greeting;
  const auto taken = TakeGreeting(&stranger.unread, &greeting);
  if (!taken.ok()) return refuse(taken.status().message(), false);
  if (!*taken) return false;
  if (greeting.kind != GreetingKind::kHello) {
    return refuse("its first message is no hello", false);
  }
  auto hello = DecodeHello(greeting.body);
  if (!hello.ok()) return refuse(hello.status().message(), true);
  const absl::Status same = CheckHello(self_, *hello);
  if (!same.ok()) return refuse(same.message(), true);
  greeted_.push_back(
      {std::move(stranger.socket), stranger.from, *std::move(hello)});
  return true;
}

std::vector<Handshakes::Greeted> Handshakes::TakeGreeted() {
  return std::exchange(greeted_, {});
}

bool Handshakes::Answer(const Greeted& greeted, const std::string& bytes) {
  // A few hundred bytes into an empty socket buffer: all or an error.
  return ::send(greeted.socket.get(), bytes.data(), bytes.size(),
                MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::vector<Handshakes::Refusal> Handshakes::TakeRefused() {
  return std::exchange(refused_, {});
}

}  // namespace pipework
