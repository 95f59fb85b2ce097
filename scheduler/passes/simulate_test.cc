#include "scheduler/passes/simulate.h"

#include <catch2/catch.hpp>

#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

ActionTimes Times(std::vector<double> forward, std::vector<double> backward) {
  ActionTimes times;
  times.forward_seconds = std::move(forward);
  times.backward_seconds = std::move(backward);
  return times;
}

TEST_CASE("simulate: one stage takes all its forwards and backwards") {
  const Program program = MustCompile("1f1b", ChainOf({1}), SegmentOf(5));
  const auto timeline = Simulate(program, Times({1}, {2}));
  REQUIRE(timeline.ok());
  CHECK(timeline->makespan == 15);
  CHECK(timeline->bubble() == 0);
  CHECK(timeline->busy_seconds == std::vector<double>{15});
  CHECK(timeline->spans.size() == 10);
}

TEST_CASE("simulate: two stages on one core take turns at half speed") {
  // Both always have work in the steady state, so the pair takes the sum.
  const Program program = MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(50));
  ActionTimes times = Times({1, 1}, {2, 2});
  const auto apart = Simulate(program, times);
  times.core_group = {0, 0};
  times.group_cores = {1};
  const auto together = Simulate(program, times);
  REQUIRE(apart.ok());
  REQUIRE(together.ok());
  CHECK(apart->makespan == (50 + 1) * 3);
  CHECK(together->makespan == Approx(50 * 6));
  times.group_cores = {2};
  CHECK(Simulate(program, times)->makespan == apart->makespan);
}

TEST_CASE("simulate: replicas wait for each other at the all-reduce") {
  const Program program = MustCompile("1f1b", ChainOf({2}), SegmentOf(4));
  ActionTimes times = Times({1}, {2});
  CHECK(Simulate(program, times)->makespan == 6);
  times.all_reduce_seconds = {10};
  CHECK(Simulate(program, times)->makespan == 16);
  times.update_seconds = {5};
  CHECK(Simulate(program, times)->makespan == 21);
}

TEST_CASE("simulate: every action costs what actions cost") {
  const Program program = MustCompile("1f1b", ChainOf({1}), SegmentOf(2));
  ActionTimes times = Times({1}, {1});
  times.action_seconds = 0.25;
  // F0 B0 R0 U0 F1 B1, and what they compute.
  CHECK(Simulate(program, times)->makespan == Approx(4 + 6 * 0.25));
}

TEST_CASE("simulate: a transfer delays its receiver and nobody else") {
  const Program program = MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(1));
  ActionTimes times = Times({1, 1}, {2, 2});
  times.transfer_seconds = {0.5};
  CHECK(Simulate(program, times)->makespan == 7);
}

TEST_CASE("simulate: a message costs both ends what it makes them compute") {
  const Program program = MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(1));
  ActionTimes times = Times({1, 1}, {2, 2});
  times.message_seconds = {0.25};
  times.transfer_seconds = {0.5};
  // There and back: two messages, two ends each, and their delays.
  CHECK(Simulate(program, times)->makespan == 6 + 4 * 0.25 + 2 * 0.5);
}

TEST_CASE("simulate: lists of the wrong length and dead programs are refused") {
  Program program = MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(2));
  CHECK_FALSE(Simulate(program, Times({1}, {2})).ok());
  ActionTimes times = Times({1, 1}, {2, 2});
  times.core_group = {0, 1};
  times.group_cores = {1};
  CHECK_FALSE(Simulate(program, times).ok());
  program.rows[0].actions.clear();
  CHECK_FALSE(Simulate(program, Times({1, 1}, {2, 2})).ok());
}

TEST_CASE("simulate: an empty segment takes no time") {
  const Program program = MustCompile("1f1b", ChainOf({1, 2}), SegmentOf(0));
  const auto timeline = Simulate(program, {});
  REQUIRE(timeline.ok());
  CHECK(timeline->makespan == 0);
  CHECK(timeline->bubble() == 0);
}

}  // namespace
}  // namespace pipework
