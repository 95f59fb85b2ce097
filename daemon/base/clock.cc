#include "daemon/base/clock.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace pipework {
namespace {

using Steady = std::chrono::steady_clock;

struct Anchor {
  absl::Time wall = absl::Now();
  Steady::time_point steady = Steady::now();
};

const Anchor& TheAnchor() {
  static const Anchor anchor;
  return anchor;
}

class RealClock final : public Clock {
 public:
  absl::Time Now() const override {
    const Anchor& anchor = TheAnchor();
    return anchor.wall + absl::FromChrono(Steady::now() - anchor.steady);
  }

  bool WaitUntil(std::condition_variable& changed,
                 std::unique_lock<std::mutex>& lock, absl::Time deadline,
                 absl::FunctionRef<bool()> ready) const override {
    // A day at a time: an infinite deadline does not fit in a time_point.
    while (!ready()) {
      const absl::Duration left = deadline - Now();
      if (left <= absl::ZeroDuration()) return ready();
      changed.wait_until(
          lock, Steady::now() +
                    absl::ToChronoNanoseconds(std::min(left, absl::Hours(24))));
    }
    return true;
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

absl::Time MonotonicNow() { return Clock::Real().Now(); }

bool WaitUntil(std::condition_variable& changed,
               std::unique_lock<std::mutex>& lock, absl::Time deadline,
               absl::FunctionRef<bool()> ready) {
  return Clock::Real().WaitUntil(changed, lock, deadline, ready);
}

int PollTimeout(absl::Time deadline) {
  const absl::Duration left = deadline - MonotonicNow();
  if (left <= absl::ZeroDuration()) return 0;
  if (left >= absl::Minutes(1)) return 60000;
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

FakeClock::FakeClock(absl::Time start) : now_(start) {}

absl::Time FakeClock::Now() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return now_;
}

bool FakeClock::WaitUntil(std::condition_variable& changed,
                          std::unique_lock<std::mutex>& lock,
                          absl::Time deadline,
                          absl::FunctionRef<bool()> ready) const {
  while (!ready()) {
    if (Now() >= deadline) return ready();
    changed.wait_for(lock, std::chrono::milliseconds(1));
  }
  return true;
}

void FakeClock::Advance(absl::Duration by) {
  std::lock_guard<std::mutex> lock(mutex_);
  now_ += by;
}

}  // namespace pipework
