#include "daemon/base/clock.h"

#include <catch2/catch.hpp>
#include <thread>

#include "absl/time/clock.h"

namespace pipework {
namespace {

TEST_CASE("clock: the real clock goes forward, near the wall time") {
  const absl::Time a = MonotonicNow();
  const absl::Time b = MonotonicNow();
  CHECK(a <= b);
  CHECK(absl::AbsDuration(a - absl::Now()) < absl::Hours(1));
}

TEST_CASE("clock: a wait ends when the condition holds, or at its deadline") {
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
  std::unique_lock<std::mutex> lock(mutex);
  CHECK_FALSE(WaitUntil(changed, lock, MonotonicNow() + absl::Milliseconds(2),
                        [&] { return ready; }));
  CHECK_FALSE(
      WaitUntil(changed, lock, absl::InfinitePast(), [&] { return ready; }));
  std::thread other([&] {
    std::lock_guard<std::mutex> inner(mutex);
    ready = true;
    changed.notify_all();
  });
  CHECK(
      WaitUntil(changed, lock, absl::InfiniteFuture(), [&] { return ready; }));
  lock.unlock();
  other.join();
}

TEST_CASE("clock: a fake clock stands still until it is moved") {
  FakeClock clock;
  const absl::Time start = clock.Now();
  CHECK(clock.Now() == start);
  clock.Advance(absl::Seconds(5));
  CHECK(clock.Now() == start + absl::Seconds(5));
}

TEST_CASE(
    "clock: a wait on a fake clock ends when the clock passes its "
    "deadline") {
  FakeClock clock;
  std::thread mover([&] { clock.Advance(absl::Hours(1)); });
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock<std::mutex> lock(mutex);
  CHECK_FALSE(clock.WaitUntil(
      changed, lock, absl::FromUnixSeconds(1700000000) + absl::Minutes(59),
      [] { return false; }));
  mover.join();
}

TEST_CASE("clock: a poll timeout is rounded up, and never negative") {
  CHECK(PollTimeout(absl::InfinitePast()) == 0);
  CHECK(PollTimeout(absl::InfiniteFuture()) == 60000);
  const int some = PollTimeout(MonotonicNow() + absl::Microseconds(10));
  CHECK(some >= 0);
  CHECK(some <= 1);
}

}  // namespace
}  // namespace pipework
