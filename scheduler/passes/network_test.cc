#include "scheduler/passes/network.h"

#include <catch2/catch.hpp>

#include "scheduler/passes/simulate.h"
#include "scheduler/passes/steady_state.h"
#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

// Forward 1 and backward 2 on every stage.
ActionTimes EqualTimes(int stages) {
  ActionTimes times;
  times.forward_seconds.assign(stages, 1);
  times.backward_seconds.assign(stages, 2);
  return times;
}

// Every row on a device of its own; node n has `devices[n]` of them.
Network Nodes(const std::vector<int>& devices, Link local, Link between) {
  Network network;
  network.levels = {local, between};
  int device = 0;
  for (size_t node = 0; node < devices.size(); ++node) {
    for (int d = 0; d < devices[node]; ++d) {
      network.row_path.push_back({device++, static_cast<int>(node)});
    }
  }
  return network;
}

TEST_CASE("network: a message takes the outermost level on which rows differ") {
  Network network;
  network.levels = {{8, 0}, {4, 0}, {2, 0}};
  network.row_path = {{0, 0, 0}, {1, 0, 0}, {2, 1, 0}, {3, 2, 1}, {0, 0, 0}};
  network.pairs = {{1, 1, 0, {3, 0.5}}};
  CHECK(RouteOf(network, 0, 1).level == 0);
  CHECK(RouteOf(network, 0, 1).from == 0);
  CHECK(RouteOf(network, 0, 1).to == 1);
  CHECK(RouteOf(network, 0, 3).level == 2);
  CHECK(RouteOf(network, 0, 3).to == 1);
  CHECK(RouteOf(network, 3, 0).link.bytes_per_second == 2);
  CHECK(RouteOf(network, 0, 4).level == -1);
  // The pair's own speed, both ways.
  CHECK(RouteOf(network, 0, 2).link.bytes_per_second == 3);
  CHECK(RouteOf(network, 2, 1).link.latency_seconds == 0.5);
}

TEST_CASE("network: alone, a message takes its bytes and the latency") {
  const Program program = MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(1));
  ActionTimes times = EqualTimes(2);
  times.network = Nodes({1, 1}, {1, 0}, {10, 0.25});
  times.network.forward_bytes = {5};
  times.network.backward_bytes = {20};
  const auto timeline = Simulate(program, times);
  REQUIRE(timeline.ok());
  CHECK(timeline->makespan == 6 + (0.5 + 0.25) + (2 + 0.25));
  REQUIRE(timeline->messages.size() == 2);
  CHECK(timeline->messages[0].begin == 1);
  CHECK(timeline->messages[0].end == 1.75);
  CHECK(timeline->messages[1].bytes == 20);
  // Unshared transfers come on top.
  times.transfer_seconds = {1};
  CHECK(Simulate(program, times)->makespan == 9 + 2);
}

TEST_CASE("network: rows of one device exchange messages in no time") {
  const Program program = MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(3));
  ActionTimes times = EqualTimes(2);
  const double free = Simulate(program, times)->makespan;
  times.network.levels = {{1, 1}};
  times.network.row_path = {{7}, {7}};
  times.network.forward_bytes = {100};
  times.network.backward_bytes = {100};
  CHECK(Simulate(program, times)->makespan == free);
}

TEST_CASE("network: a shared up-link serves one message after the other") {
  // Both replicas of stage 0 send at 1 from one node to one replica of stage 1
  // on another: the second message comes when both are through.
  const Program program = MustCompile("1f1b", ChainOf({2, 1}), SegmentOf(2));
  ActionTimes times;
  times.forward_seconds = {1, 0};
  times.backward_seconds = {0, 0};
  times.network = Nodes({2, 1}, {0, 0}, {1, 0});
  times.network.forward_bytes = {4};
  const auto timeline = Simulate(program, times);
  REQUIRE(timeline.ok());
  std::vector<double> ends;
  for (const Timeline::Message& message : timeline->messages) {
    if (message.kind == ActionKind::kSendForward) ends.push_back(message.end);
  }
  CHECK(ends == std::vector<double>{5, 9});

  // With a node each, the receiver's down-link is what they share.
  times.network = Nodes({1, 1, 1}, {0, 0}, {1, 0});
  times.network.forward_bytes = {4};
  const auto apart = Simulate(program, times);
  REQUIRE(apart.ok());
  CHECK(apart->messages[0].begin == 1);
  CHECK(apart->messages[1].begin == 1);
  CHECK(apart->messages[1].end == 9);
}

TEST_CASE("network: the two directions of a link do not wait for each other") {
  // In steady state an activation of 3 and a gradient of 3 cross per period
  // of 3: half duplex would need 6.
  const Program program =
      MustCompile("1f1b", ChainOf({1, 1}, 8), SegmentOf(60));
  ActionTimes times = EqualTimes(2);
  times.network = Nodes({1, 1}, {0, 0}, {1, 0});
  times.network.forward_bytes = {3};
  times.network.backward_bytes = {3};
  const auto timeline = Simulate(program, times);
  REQUIRE(timeline.ok());
  CHECK(SteadyStateOf(program, *timeline).step_seconds == Approx(3));
}

TEST_CASE("network: a slow link sets the pace, and its load says so") {
  const Program program =
      MustCompile("1f1b", ChainOf({1, 1, 1}, 12), SegmentOf(80));
  ActionTimes times = EqualTimes(3);
  times.network = Nodes({2, 1}, {100, 0}, {1, 0});
  times.network.forward_bytes = {5, 5};
  times.network.backward_bytes = {5, 4};
  const auto timeline = Simulate(program, times);
  REQUIRE(timeline.ok());
  const SteadyState steady = SteadyStateOf(program, *timeline);
  CHECK(steady.step_seconds == Approx(5));
  const std::vector<LinkLoad> loads =
      LinkLoads(times.network, *timeline, steady.begin, steady.end);
  REQUIRE(loads.size() == 2 * (2 + 2));
  CHECK(loads[0].level == 1);
  CHECK(loads[0].busy == Approx(1).margin(0.05));
  CHECK(loads[0].bytes_per_second == Approx(1).margin(0.05));
  CHECK(loads[0].limit_bytes_per_second == 1);
  CHECK(loads[2].busy == Approx(0.8).margin(0.05));
  // The gradients: up from node 1, down to node 0.
  for (const LinkLoad& load : {loads[2], loads[3]}) {
    CHECK(load.level == 1);
    CHECK(load.up == (load.component == 1));
  }
  CHECK(loads[4].level == 0);
}

TEST_CASE("network: a ring alone takes what the cost model says") {
  for (const int r : {2, 3, 4}) {
    const Program program = MustCompile("1f1b", ChainOf({r}), SegmentOf(r));
    ActionTimes times = EqualTimes(1);
    times.network = Nodes(std::vector<int>(r, 1), {1, 0}, {10, 0.125});
    times.network.all_reduce_bytes = {100};
    times.update_seconds = {1};
    const auto timeline = Simulate(program, times);
    REQUIRE(timeline.ok());
    const double ring = RingSeconds(100, r, {10, 0.125});
    REQUIRE(timeline->messages.size() == static_cast<size_t>(r));
    // Another minibatch of each shows how long the first update took.
    const Program twice = MustCompile("1f1b", ChainOf({r}), SegmentOf(2 * r));
    CHECK(Simulate(twice, times)->makespan == Approx(6 + ring + 1));
  }
}

TEST_CASE("network: a ring waits for activations on the same link") {
  // Stage 0's replicas are on two nodes, and stage 1 on the second: the ring
  // and the activations share the first node's up-link.
  const Program program = MustCompile("1f1b", ChainOf({2, 1}), SegmentOf(40));
  ActionTimes times = EqualTimes(2);
  times.network.levels = {{0, 0}, {1, 0}};
  times.network.row_path = {{0, 0}, {1, 1}, {2, 1}};
  times.network.all_reduce_bytes = {4, 0};
  times.network.forward_bytes = {0};
  const auto alone = Simulate(program, times);
  times.network.forward_bytes = {4};
  const auto shared = Simulate(program, times);
  REQUIRE(alone.ok());
  REQUIRE(shared.ok());
  CHECK(shared->makespan > alone->makespan);
}

TEST_CASE("network: replicas on one node share its link, and are slower") {
  const Program program = MustCompile("1f1b", ChainOf({4, 1}), SegmentOf(80));
  ActionTimes times;
  times.forward_seconds = {4, 1};
  times.backward_seconds = {8, 2};
  times.network = Nodes({4, 1}, {0, 0}, {1, 0});
  times.network.forward_bytes = {4};
  const auto shared = Simulate(program, times);
  times.network = Nodes({1, 1, 1, 1, 1}, {0, 0}, {1, 0});
  times.network.forward_bytes = {2};
  const auto apart = Simulate(program, times);
  REQUIRE(shared.ok());
  REQUIRE(apart.ok());
  CHECK(SteadyStateOf(program, *shared).step_seconds == Approx(4));
  CHECK(SteadyStateOf(program, *apart).step_seconds == Approx(3).margin(0.8));
}

TEST_CASE("network: what does not fit the program is refused") {
  const Program program = MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(2));
  const auto refuses = [&](const Network& network) {
    ActionTimes times = EqualTimes(2);
    times.network = network;
    return !Simulate(program, times).ok();
  };
  const Network good = Nodes({1, 1}, {1, 0}, {1, 0});
  CHECK_FALSE(refuses(good));
  Network bad = good;
  bad.row_path.pop_back();
  CHECK(refuses(bad));
  bad = good;
  bad.row_path[0].pop_back();
  CHECK(refuses(bad));
  bad = good;
  bad.forward_bytes = {1, 2};
  CHECK(refuses(bad));
  bad = good;
  bad.backward_bytes = {-1};
  CHECK(refuses(bad));
  bad = good;
  bad.levels[1].latency_seconds = -1;
  CHECK(refuses(bad));
  bad = good;
  bad.pairs = {{2, 0, 1, {1, 0}}};
  CHECK(refuses(bad));
}

}  // namespace
}  // namespace pipework
