// Time that never jumps: deadlines are compared with Clock::Now(), which starts
// at the wall time of the process's start and goes on by the monotonic clock.
#ifndef PIPEWORK_DAEMON_BASE_CLOCK_H_
#define PIPEWORK_DAEMON_BASE_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace pipework {

// Any thread may call.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() const = 0;

  // Waits until `ready` or `deadline`; returns ready(). `ready` is called with
  // `lock` held, and whoever makes it true notifies `changed`.
  virtual bool WaitUntil(std::condition_variable& changed,
                         std::unique_lock<std::mutex>& lock,
                         absl::Time deadline,
                         absl::FunctionRef<bool()> ready) const = 0;

  // The clock of this machine; lives for ever.
  static const Clock& Real();
};

// Real().Now() and Real().WaitUntil(), for code that needs no fake.
absl::Time MonotonicNow();
bool WaitUntil(std::condition_variable& changed,
               std::unique_lock<std::mutex>& lock, absl::Time deadline,
               absl::FunctionRef<bool()> ready);

// Milliseconds until `deadline` for poll(2): 0 when it has passed, rounded up,
// at most a minute (callers look again then).
int PollTimeout(absl::Time deadline);

// A clock that a test moves. Waits see an Advance within a millisecond of
// real time.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::FromUnixSeconds(1700000000));

  absl::Time Now() const override;
  bool WaitUntil(std::condition_variable& changed,
                 std::unique_lock<std::mutex>& lock, absl::Time deadline,
                 absl::FunctionRef<bool()> ready) const override;

  void Advance(absl::Duration by);

 private:
  mutable std::mutex mutex_;
  absl::Time now_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_CLOCK_H_
