#include "scheduler/passes/steady_state.h"

#include <catch2/catch.hpp>

#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

SteadyState SteadyOf(const std::string& schedule, const PipelineShape& shape,
                     const Segment& segment, const ActionTimes& times) {
  const Program program = MustCompile(schedule, shape, segment);
  const auto timeline = Simulate(program, times);
  REQUIRE(timeline.ok());
  return SteadyStateOf(program, *timeline);
}

ActionTimes Times(std::vector<double> forward, std::vector<double> backward) {
  ActionTimes times;
  times.forward_seconds = std::move(forward);
  times.backward_seconds = std::move(backward);
  return times;
}

TEST_CASE("steady state: a minibatch per time of the slowest stage") {
  const SteadyState steady =
      SteadyOf("1f1b", ChainOf({1, 1, 1, 1}), SegmentOf(60),
               Times({1, 1.5, 1, 1}, {2, 3, 1, 2}));
  CHECK(steady.step_seconds == Approx(4.5));
  REQUIRE(steady.stage_utilisation.size() == 4);
  CHECK(steady.stage_utilisation[0] == Approx(3 / 4.5));
  CHECK(steady.stage_utilisation[1] == Approx(1));
  CHECK(steady.stage_utilisation[2] == Approx(2 / 4.5));
  CHECK(steady.bubble ==
        Approx(1 - (3 + 4.5 + 2 + 3) / (4 * 4.5)).margin(1e-9));
}

TEST_CASE("steady state: replicas share a stage's minibatches") {
  const SteadyState steady =
      SteadyOf("1f1b", ChainOf({2, 1}), SegmentOf(60), Times({2, 1}, {4, 2}));
  CHECK(steady.step_seconds == Approx(3));
  CHECK(steady.minibatches % 2 == 0);
  CHECK(steady.stage_utilisation[0] == Approx(1));
  CHECK(steady.row_utilisation.size() == 3);
}

TEST_CASE("steady state: a flush pays its bubble every minibatch") {
  const SteadyState steady =
      SteadyOf("flush", ChainOf({1, 1, 1, 1}), SegmentOf(6, 8),
               Times({1, 1, 1, 1}, {2, 2, 2, 2}));
  CHECK(steady.step_seconds == Approx(33));
  CHECK(steady.bubble == Approx(3.0 / 11));
}

TEST_CASE("steady state: updates that come every few minibatches are in it") {
  ActionTimes times = Times({1}, {2});
  times.update_seconds = {6};
  CHECK(
      SteadyOf("1f1b", ChainOf({1}), SegmentOf(40, 1, 4), times).step_seconds ==
      Approx(3 + 6 / 4.0));
}

TEST_CASE("steady state: a run without one is taken as a whole") {
  const SteadyState steady =
      SteadyOf("1f1b", ChainOf({1, 1}), SegmentOf(1), Times({1, 1}, {2, 2}));
  CHECK(steady.minibatches == 1);
  CHECK(steady.step_seconds == 6);
  CHECK(steady.bubble == Approx(0.5));
  CHECK(SteadyOf("1f1b", ChainOf({1, 1}), SegmentOf(0), {}).step_seconds == 0);
}

TEST_CASE("steady state: an evaluation ends on the last stage") {
  Segment segment = SegmentOf(40);
  segment.evaluation = true;
  CHECK(
      SteadyOf("1f1b", ChainOf({1, 1, 1}), segment, Times({1, 3, 1}, {0, 0, 0}))
          .step_seconds == Approx(3));
}

TEST_CASE("steady state: a window by minibatches, in the middle of a run") {
  Segment segment = SegmentOf(40);
  segment.first_minibatch = 100;
  const Program program = MustCompile("1f1b", ChainOf({1, 1}), segment);
  const auto timeline = Simulate(program, Times({1, 1}, {2, 2}));
  REQUIRE(timeline.ok());
  const SteadyState steady = SteadyStateBetween(program, *timeline, 10, 30);
  CHECK(steady.minibatches == 20);
  CHECK(steady.step_seconds == Approx(3));
  CHECK(steady.bubble == Approx(0).margin(1e-9));
}

}  // namespace
}  // namespace pipework
