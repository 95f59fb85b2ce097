#include "daemon/base/shutdown.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "daemon/base/clock.h"
#include "proto/check.h"

namespace pipework {
namespace {

// What the handler touches: it may only use lock-free atomics and write(2).
std::atomic<int> g_fd{-1};
std::atomic<int> g_signal{0};
std::atomic<bool> g_requested{false};
std::atomic<int> g_signals{0};

void Announce() {
  const uint64_t one = 1;
  const ssize_t ignored = ::write(g_fd.load(), &one, sizeof one);
  (void)ignored;
}

void Handle(int number) {
  const int saved_errno = errno;
  if (g_signals.fetch_add(1) > 0) _exit(128 + number);
  g_signal.store(number);
  g_requested.store(true);
  Announce();
  errno = saved_errno;
}

}  // namespace

ShutdownSignal& ShutdownSignal::Install() {
  static ShutdownSignal signal;
  return signal;
}

ShutdownSignal::ShutdownSignal()
    : event_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  PIPE_CHECK(event_fd_ >= 0);
  g_fd.store(event_fd_);
  struct sigaction action = {};
  action.sa_handler = &Handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
}

bool ShutdownSignal::requested() const { return g_requested.load(); }

int ShutdownSignal::signal_number() const { return g_signal.load(); }

bool ShutdownSignal::Wait(absl::Time deadline) const {
  while (!requested()) {
    if (MonotonicNow() >= deadline) return false;
    pollfd entry = {event_fd_, POLLIN, 0};
    ::poll(&entry, 1, PollTimeout(deadline));
  }
  return true;
}

void ShutdownSignal::Request() {
  g_requested.store(true);
  Announce();
}

}  // namespace pipework
