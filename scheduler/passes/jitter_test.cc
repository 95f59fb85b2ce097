#include "scheduler/passes/jitter.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <string>

#include "scheduler/passes/simulate.h"
#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

TEST_CASE("jitter: draws are the published ones of SplitMix64") {
  // State 1234567: the first outputs of the reference implementation.
  KeyedDraws draws(1234567);
  const auto as_draw = [](uint64_t output) {
    return static_cast<double>(output >> 11) * 0x1p-53;
  };
  CHECK(draws.Next() == as_draw(6457827717110365317u));
  CHECK(draws.Next() == as_draw(3203168211198807973u));
  CHECK(draws.Next() == as_draw(9817491932198370423u));
}

Action ForwardOf(int64_t unit) {
  Action action;
  action.number = unit;
  return action;
}

TEST_CASE("jitter: a spread keeps the mean and has its deviation") {
  Jitter jitter;
  jitter.seed = 3;
  jitter.spread = 0.2;
  RowJitter row(jitter, StageId{1});
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double seconds = row.Apply(ForwardOf(i), 10);
    CHECK(seconds >= 1);
    sum += seconds;
    squares += seconds * seconds;
  }
  const double mean = sum / kDraws;
  CHECK(mean == Approx(10).epsilon(0.005));
  CHECK(std::sqrt(squares / kDraws - mean * mean) == Approx(2).epsilon(0.02));
}

TEST_CASE("jitter: a delay has the published size and frequency") {
  Jitter jitter;
  jitter.delay_probability = 0.2;
  jitter.delay_scale = 0.5;
  jitter.delay_base_seconds = 20;  // above the times: the base counts
  RowJitter row(jitter, StageId{0});
  int late = 0;
  double sum = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double delay = row.Apply(ForwardOf(i), 8) - 8;
    if (delay == 0) continue;
    ++late;
    sum += delay;
    CHECK(delay >= 0.5 * 20 * 0.5);
    CHECK(delay < 0.5 * 20 * 1.5);
  }
  CHECK(late / double{kDraws} == Approx(0.2).epsilon(0.05));
  CHECK(sum / late == Approx(10).epsilon(0.02));
  // Without a base the moving average of the row counts.
  jitter.delay_base_seconds = 0;
  jitter.delay_probability = 1;
  RowJitter other(jitter, StageId{0});
  const double delay = other.Apply(ForwardOf(0), 8) - 8;
  CHECK(delay >= 0.5 * 8 * 0.5);
  CHECK(delay < 0.5 * 8 * 1.5);
}

TEST_CASE("jitter: equal seeds give equal bits, others do not") {
  const Program program =
      MustCompile("1f1b", ChainOf({1, 1, 1}), SegmentOf(30));
  ActionTimes times;
  times.forward_seconds = {1, 1, 1};
  times.backward_seconds = {2, 2, 2};
  times.jitter.seed = 7;
  times.jitter.spread = 0.1;
  times.jitter.delay_probability = 0.1;
  times.jitter.delay_scale = 1;
  const double first = Simulate(program, times)->makespan;
  CHECK(Simulate(program, times)->makespan == first);
  // Written down on one machine: any other gives the same.
  char bits[32];
  std::snprintf(bits, sizeof bits, "%a", first);
  CHECK(std::string(bits) == "0x1.db54317a9a21ep+6");
  times.jitter.seed = 8;
  CHECK(Simulate(program, times)->makespan != first);
}

TEST_CASE("jitter: another schedule meets the same slow tasks") {
  ActionTimes times;
  times.forward_seconds = {1};
  times.backward_seconds = {2};
  times.jitter.spread = 0.3;
  const Program flush = MustCompile("flush", ChainOf({1}), SegmentOf(1, 20));
  const Program one = MustCompile("1f1b", ChainOf({1}), SegmentOf(20));
  // One stage runs everything either way; only the order of sums differs.
  CHECK(Simulate(flush, times)->makespan ==
        Approx(Simulate(one, times)->makespan));
}

TEST_CASE("jitter: numbers that cannot be are refused") {
  Jitter jitter;
  CHECK(CheckJitter(jitter).ok());
  jitter.delay_probability = 1.5;
  CHECK_FALSE(CheckJitter(jitter).ok());
  jitter.delay_probability = 0.5;
  jitter.spread = -1;
  CHECK_FALSE(CheckJitter(jitter).ok());
}

}  // namespace
}  // namespace pipework
