#include "daemon/metrics/time_account.h"

#include <catch2/catch.hpp>
#include <utility>

namespace pipework {
namespace {

TEST_CASE("time account: time outside every scope is other") {
  FakeClock clock;
  TimeAccount account(clock);
  clock.Advance(absl::Seconds(3));
  CHECK(account.Total().Of(Bucket::kOther) == absl::Seconds(3));
  CHECK(account.Total().Wall() == absl::Seconds(3));
}

TEST_CASE("time account: an inner scope suspends the one around it") {
  FakeClock clock;
  TimeAccount account(clock);
  {
    auto outer = account.In(Bucket::kTransfer);
    clock.Advance(absl::Seconds(1));
    {
      auto inner = account.In(Bucket::kWaitUpstream);
      clock.Advance(absl::Seconds(10));
    }
    clock.Advance(absl::Seconds(2));
  }
  clock.Advance(absl::Seconds(4));
  const Times total = account.Total();
  CHECK(total.Of(Bucket::kTransfer) == absl::Seconds(3));
  CHECK(total.Of(Bucket::kWaitUpstream) == absl::Seconds(10));
  CHECK(total.Of(Bucket::kOther) == absl::Seconds(4));
  CHECK(total.Of(Bucket::kCompute) == absl::ZeroDuration());
}

TEST_CASE("time account: the five shares add up to one") {
  FakeClock clock;
  TimeAccount account(clock);
  for (int i = 0; i < kBuckets - 1; ++i) {
    auto scope = account.In(static_cast<Bucket>(i));
    clock.Advance(absl::Milliseconds(7 * (i + 1)));
  }
  clock.Advance(absl::Milliseconds(1));
  const Times total = account.Total();
  double sum = 0;
  for (int i = 0; i < kBuckets; ++i) sum += total.Share(static_cast<Bucket>(i));
  CHECK(sum == Approx(1.0));
  CHECK(total.Share(Bucket::kWaitDownstream) == Approx(28.0 / 71.0));
}

TEST_CASE("time account: no wall time has no shares") {
  FakeClock clock;
  TimeAccount account(clock);
  CHECK(account.Total().Share(Bucket::kOther) == 0);
}

TEST_CASE("time account: a moved scope closes once") {
  FakeClock clock;
  TimeAccount account(clock);
  {
    auto scope = account.In(Bucket::kCompute);
    auto moved = std::move(scope);
    clock.Advance(absl::Seconds(1));
  }
  clock.Advance(absl::Seconds(1));
  CHECK(account.Total().Of(Bucket::kCompute) == absl::Seconds(1));
  CHECK(account.Total().Of(Bucket::kOther) == absl::Seconds(1));
}

TEST_CASE("time account: nothing counts while it is paused") {
  FakeClock clock;
  TimeAccount account(clock);
  auto scope = account.In(Bucket::kCompute);
  clock.Advance(absl::Seconds(1));
  account.Pause();
  clock.Advance(absl::Seconds(100));
  account.Resume();
  clock.Advance(absl::Seconds(2));
  CHECK(account.Total().Of(Bucket::kCompute) == absl::Seconds(3));
  CHECK(account.Total().Wall() == absl::Seconds(3));
}

TEST_CASE("time account: a window starts where the last one ended") {
  FakeClock clock;
  TimeAccount account(clock);
  auto scope = account.In(Bucket::kCompute);
  clock.Advance(absl::Seconds(5));
  CHECK(account.Window().Of(Bucket::kCompute) == absl::Seconds(5));
  clock.Advance(absl::Seconds(2));
  CHECK(account.Window().Of(Bucket::kCompute) == absl::Seconds(2));
  CHECK(account.Window().Wall() == absl::ZeroDuration());
  CHECK(account.Total().Wall() == absl::Seconds(7));
}

TEST_CASE("time account: every bucket has a name of its own") {
  CHECK(BucketName(Bucket::kCompute) == std::string("compute"));
  CHECK(BucketName(Bucket::kWaitDownstream) == std::string("wait_downstream"));
  CHECK(BucketName(Bucket::kOther) == std::string("other"));
}

}  // namespace
}  // namespace pipework
