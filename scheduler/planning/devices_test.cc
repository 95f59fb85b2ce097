#include "scheduler/planning/devices.h"

#include <catch2/catch.hpp>
#include <set>

#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

using testing::Cluster;
using Seats = std::vector<std::vector<int>>;

std::vector<SeatRequest> Singles(std::vector<double> seconds) {
  std::vector<SeatRequest> requests(seconds.size());
  for (size_t s = 0; s < seconds.size(); ++s) requests[s].seconds = seconds[s];
  return requests;
}

TEST_CASE("devices: those that share a core are one group, with its cores") {
  const DevicePool pool = MakePool(Cluster(2, 2, 1), 1);
  REQUIRE(pool.size() == 4);
  CHECK(pool.devices[1].name == "n1/cpu:1");
  REQUIRE(pool.groups.size() == 2);
  CHECK(pool.groups[1].devices == std::vector<int>{2, 3});
  CHECK(pool.groups[1].cores == 1);
  CHECK(pool.Slowdown({0, 1, 2}) == 2);
  CHECK(pool.Slowdown({0, 2}) == 1);
  CHECK(MakePool(Cluster(1, 3), 1).groups.size() == 3);
  // Two threads on three cores: one and a half executors at full speed.
  CHECK(MakePool(Cluster(1, 2, 3), 2).groups[0].cores == 1.5);
}

TEST_CASE("devices: a GPU is alone, and one that cannot be used is left out") {
  v1::Topology topology = Cluster(1, 1);
  for (int g = 0; g < 2; ++g) {
    v1::Device* gpu = topology.mutable_nodes(0)->add_devices();
    gpu->set_name("cuda:" + std::to_string(g));
    gpu->set_usable(g == 0);
    gpu->set_unusable_reason("no kernels");
  }
  const DevicePool pool = MakePool(topology, 1);
  CHECK(pool.size() == 2);
  CHECK(pool.groups.size() == 2);
  CHECK(pool.Find("n1/cuda:0") == 1);
  CHECK(pool.Find("n1/cuda:1") == -1);
  CHECK(pool.unusable == std::vector<std::string>{"n1/cuda:1 (no kernels)"});
}

TEST_CASE(
    "devices: equal stages sit beside their neighbours, nodes filled in "
    "order") {
  const DevicePool pool = MakePool(Cluster(2, 2, 1), 1);
  const auto seats = AssignSeats(pool, Singles({1, 1, 1, 1}), {});
  REQUIRE(seats.ok());
  CHECK(*seats == Seats{{0}, {1}, {2}, {3}});
}

TEST_CASE(
    "devices: core groups are balanced before neighbours are kept together") {
  const DevicePool pool = MakePool(Cluster(2, 2, 1), 1);
  // 3 + 1 and 2 + 2, not 3 + 2 and 2 + 1.
  const auto seats = AssignSeats(pool, Singles({3, 2, 2, 1}), {});
  REQUIRE(seats.ok());
  CHECK(*seats == Seats{{0}, {2}, {3}, {1}});
}

TEST_CASE("devices: few stages take a core each before any shares one") {
  const DevicePool pool = MakePool(Cluster(2, 2, 1), 1);
  const auto seats = AssignSeats(pool, Singles({1, 1}), {});
  REQUIRE(seats.ok());
  CHECK(*seats == Seats{{0}, {2}});
}

TEST_CASE("devices: stage 0 sits where the data is") {
  const DevicePool pool = MakePool(Cluster(2, 2), 1);
  const auto seats = AssignSeats(pool, Singles({1, 1, 1}), {"n2"});
  REQUIRE(seats.ok());
  CHECK(*seats == Seats{{2}, {0}, {1}});
  std::vector<SeatRequest> wide(1);
  wide[0].replicas = 3;
  const auto refused = AssignSeats(pool, wide, {"n2"});
  CHECK(refused.status().message() ==
        "plan: the number of replicas of stage 0 is 3, expected at most the "
        "free devices of the nodes that hold the data: n2; put the data on "
        "more nodes");
}

TEST_CASE("devices: pinned seats stay and the others take what is left") {
  const DevicePool pool = MakePool(Cluster(2, 2), 1);
  std::vector<SeatRequest> requests = Singles({1, 1, 1, 1});
  requests[2].pinned = {0};
  const auto seats = AssignSeats(pool, requests, {});
  REQUIRE(seats.ok());
  CHECK((*seats)[2] == std::vector<int>{0});
  std::set<int> used;
  for (const auto& stage : *seats) used.insert(stage[0]);
  CHECK(used.size() == 4);
}

TEST_CASE("devices: each is used once, however many there are") {
  for (const int nodes : {1, 3, 5}) {
    for (const int per_node : {1, 2, 4}) {
      const DevicePool pool = MakePool(Cluster(nodes, per_node, 1), 1);
      for (int stages = 1; stages <= pool.size(); ++stages) {
        const auto seats =
            AssignSeats(pool, Singles(std::vector<double>(stages, 1)), {"n1"});
        REQUIRE(seats.ok());
        std::set<int> used;
        for (const auto& stage : *seats) {
          for (const int device : stage) used.insert(device);
        }
        CHECK(used.size() == static_cast<size_t>(stages));
        CHECK(pool.devices[(*seats)[0][0]].node == 0);
      }
    }
  }
}

TEST_CASE(
    "devices: a processor moves messages, but does not wait for the wire") {
  CHECK(MessageWork({0, 0}, 1e6) == 0);
  // Inside a node: all of it.
  CHECK(MessageWork({20e9, 5e-6}, 20e3) == Approx(6e-6));
  // A slow wire: a call and a copy.
  CHECK(MessageWork({1e6, 1e-3}, 3e3) == Approx(31e-6));
}

TEST_CASE("devices: more seats than devices names both numbers") {
  const DevicePool pool = MakePool(Cluster(2, 4), 1);
  const auto seats = AssignSeats(pool, Singles(std::vector<double>(9, 1)), {});
  CHECK(seats.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(seats.status().message() ==
        "plan: the number of devices needed is 9, expected at most 8, the "
        "usable devices of the cluster; use fewer stages or replicas, or add "
        "devices");
}

}  // namespace
}  // namespace pipework
