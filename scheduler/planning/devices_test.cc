#include "scheduler/planning/devices.h"

#include <catch2/catch.hpp>
#include <set>

#include "scheduler/planning/topology.h"
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

// Racks of nodes of devices, joined at 100, 10 and 1 bytes per second.
v1::Topology Racks(int racks, int nodes, int devices) {
  v1::Topology topology;
  const int counts[] = {devices, nodes, racks};
  double bytes_per_second = 100;
  for (const int count : counts) {
    v1::Topology::Level* level = topology.add_levels();
    level->set_count(count);
    level->set_bytes_per_second(bytes_per_second);
    bytes_per_second /= 10;
  }
  topology.mutable_device()->set_name("cuda");
  return *ExpandTopology(topology);
}

TEST_CASE("devices: two are joined on the innermost level that both are in") {
  const DevicePool pool = MakePool(Racks(2, 2, 2), 1);
  REQUIRE(pool.size() == 8);
  CHECK(pool.devices[5].path == std::vector<int>{2, 1});
  CHECK(pool.LevelBetween(0, 1) == 0);
  CHECK(pool.LevelBetween(0, 2) == 1);
  CHECK(pool.LevelBetween(0, 4) == 2);
  CHECK(pool.LinkBetween(0, 1).bytes_per_second == 100);
  CHECK(pool.LinkBetween(0, 2).bytes_per_second == 10);
  CHECK(pool.LinkBetween(1, 7).bytes_per_second == 1);
  CHECK(pool.LinkOf({0}).bytes_per_second == 100);
  CHECK(pool.LinkOf({0, 1, 3}).bytes_per_second == 10);
  CHECK(pool.LinkOf({2, 3, 4}).bytes_per_second == 1);
  CHECK(pool.UniformCounts() == std::vector<int>{2, 2, 2});
}

TEST_CASE("devices: counts of a cluster's levels, where they are the same") {
  CHECK(MakePool(Cluster(4, 2), 1).UniformCounts() == std::vector<int>{2, 4});
  CHECK(MakePool(Cluster(1, 3), 1).UniformCounts() == std::vector<int>{3});
  CHECK(MakePool(Cluster(3, 1), 1).UniformCounts() == std::vector<int>{1, 3});
  v1::Topology uneven = Cluster(2, 2);
  uneven.mutable_nodes(1)->mutable_devices()->RemoveLast();
  CHECK(MakePool(uneven, 1).UniformCounts().empty());
}

TEST_CASE(
    "devices: a component of one number in two groups is two components") {
  v1::Topology topology = Racks(2, 1, 1);
  v1::Topology::Level* outer = topology.add_levels();
  outer->set_bytes_per_second(0.1);
  // Rack 0 of hall 0, rack 0 of hall 1.
  topology.mutable_nodes(0)->add_components(0);
  topology.mutable_nodes(1)->set_components(0, 0);
  topology.mutable_nodes(1)->add_components(1);
  const DevicePool pool = MakePool(topology, 1);
  CHECK(pool.LevelBetween(0, 1) == 3);
}

TEST_CASE("devices: a pair of nodes may have a link of its own") {
  v1::Topology topology = Cluster(3, 2);
  topology.set_link_bytes_per_second(10);
  topology.set_local_bytes_per_second(100);
  v1::Topology::NodeLink* slow = topology.add_links();
  slow->set_a("n3");
  slow->set_b("n1");
  slow->set_bytes_per_second(2);
  slow->set_latency_seconds(0.5);
  v1::Topology::NodeLink* fast = topology.add_links();
  fast->set_a("n1");
  fast->set_b("n2");
  fast->set_bytes_per_second(20);
  topology.add_links()->set_a("nowhere");
  const DevicePool pool = MakePool(topology, 1);
  CHECK(pool.LinkBetween(0, 4).latency_seconds == 0.5);
  CHECK(pool.LinkBetween(5, 1).bytes_per_second == 2);
  CHECK(pool.LinkBetween(0, 2).bytes_per_second == 20);
  CHECK(pool.LinkBetween(2, 4).bytes_per_second == 10);
  CHECK(pool.LinkBetween(4, 5).bytes_per_second == 100);
  CHECK(pool.LinkOf({0, 1}).bytes_per_second == 100);
  CHECK(pool.LinkOf({0, 2}).bytes_per_second == 20);
  CHECK(pool.LinkOf({0, 2, 4}).bytes_per_second == 2);
}

TEST_CASE(
    "devices: kinds and speeds are known, and the longest stage takes the "
    "fastest") {
  v1::Topology topology = Cluster(2, 2);
  topology.mutable_nodes(1)->mutable_devices(0)->set_kind("fast");
  topology.mutable_nodes(1)->mutable_devices(0)->set_relative_speed(3);
  const DevicePool pool = MakePool(topology, 1);
  CHECK(pool.kinds == std::vector<std::string>{"", "fast"});
  CHECK(pool.devices[2].kind == 1);
  CHECK(pool.devices[2].relative_speed == 3);
  CHECK(pool.devices[1].relative_speed == 1);
  CHECK_FALSE(pool.Alike());
  CHECK(MakePool(Cluster(2, 2), 1).Alike());
  const auto seats = AssignSeats(pool, Singles({1, 2, 1}), {});
  REQUIRE(seats.ok());
  CHECK((*seats)[1] == std::vector<int>{2});
  // By profiles of the kinds: the fast one is slow at what stage 1 does.
  std::vector<SeatRequest> requests = Singles({1, 2, 1});
  requests[0].kind_seconds = {1, 0.2};
  requests[1].kind_seconds = {2, 5};
  requests[2].kind_seconds = {2.5, 0.5};
  const auto other = AssignSeats(pool, requests, {});
  REQUIRE(other.ok());
  CHECK((*other)[2] == std::vector<int>{2});
}

TEST_CASE("devices: by rule, the longest of many stages takes the fastest") {
  v1::Topology topology = Cluster(3, 4);
  topology.mutable_nodes(2)->mutable_devices(3)->set_relative_speed(2);
  const DevicePool pool = MakePool(topology, 1);
  std::vector<double> seconds(10, 1);
  seconds[4] = 2;
  const auto seats = AssignSeats(pool, Singles(seconds), {"n1"});
  REQUIRE(seats.ok());
  CHECK((*seats)[4] == std::vector<int>{11});
  CHECK((*seats)[0] == std::vector<int>{0});
}

TEST_CASE("devices: replicas of many stages stay within a component") {
  const DevicePool pool = MakePool(Racks(2, 4, 4), 1);
  std::vector<SeatRequest> requests = Singles({1, 1, 1, 1, 1, 1, 1, 1});
  const int replicas[] = {3, 4, 4, 1, 4, 8, 4, 4};
  for (size_t s = 0; s < requests.size(); ++s) {
    requests[s].replicas = replicas[s];
  }
  const auto seats = AssignSeats(pool, requests, {});
  REQUIRE(seats.ok());
  std::set<int> used;
  for (size_t s = 0; s < requests.size(); ++s) {
    int level = 0;
    for (const int device : (*seats)[s]) {
      level = std::max(level, pool.LevelBetween((*seats)[s][0], device));
      used.insert(device);
    }
    CHECK(level == (replicas[s] > 4 ? 1 : 0));
  }
  CHECK(used.size() == 32);
}

TEST_CASE("devices: one stage on all of 1,024, and 1,024 stages of one") {
  const DevicePool pool = MakePool(Racks(4, 32, 8), 1);
  std::vector<SeatRequest> one(1);
  one[0].seconds = 1;
  one[0].replicas = 1024;
  CHECK((*AssignSeats(pool, one, {}))[0].size() == 1024);
  const auto singles =
      AssignSeats(pool, Singles(std::vector<double>(1024, 1)), {"n2"});
  REQUIRE(singles.ok());
  CHECK((*singles)[0] == std::vector<int>{8});
  const auto few = AssignSeats(pool, Singles({1, 1, 1, 1, 2, 1, 1, 1}), {});
  REQUIRE(few.ok());
  CHECK(*few == Seats{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
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
