#include "daemon/profiler/link_times.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "daemon/base/clock.h"

namespace pipework {
namespace {

using Links = absl::StatusOr<std::vector<v1::LinkMeasurement>>;

// Planes of `nodes` nodes in one process, connected, and what each measures.
std::vector<Links> Measure(int nodes,
                           const std::vector<std::pair<int, int>>& pairs) {
  const auto allocator = MakeHostAllocator();
  const absl::Time deadline = MonotonicNow() + absl::Seconds(30);
  std::vector<std::unique_ptr<DataPlane>> planes;
  std::vector<DataPlane::Seat> seats;
  v1::RunnerLinks request;
  for (int i = 0; i < nodes; ++i) {
    DataPlaneOptions options;
    options.job = "links-test";
    options.nonce = 5;
    options.allocator = allocator;
    auto plane = MakeDataPlane("ucx", options);
    REQUIRE(plane.ok());
    seats.push_back({LinkSeat(i), (*plane)->address()});
    planes.push_back(*std::move(plane));
    request.add_nodes("n" + std::to_string(i + 1));
  }
  for (const auto& [a, b] : pairs) {
    v1::RunnerLinks::Pair* pair = request.add_pairs();
    pair->set_a(a);
    pair->set_b(b);
  }
  std::vector<Links> results(nodes, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int i = 0; i < nodes; ++i) {
    threads.emplace_back([&, i] {
      const absl::Status connected = planes[i]->Connect(seats, deadline);
      if (!connected.ok()) {
        results[i] = connected;
        return;
      }
      v1::RunnerLinks mine = request;
      mine.set_index(i);
      results[i] = MeasureLinks(mine, *planes[i], *allocator, deadline);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace

TEST_CASE(
    "links: every pair of three nodes is measured by the one that leads") {
  const std::vector<Links> results = Measure(3, {{0, 1}, {0, 2}, {1, 2}});
  for (const Links& links : results) {
    INFO(links.status().ToString());
    REQUIRE(links.ok());
  }
  REQUIRE(results[0]->size() == 2);
  REQUIRE(results[1]->size() == 1);
  CHECK(results[2]->empty());
  CHECK((*results[0])[0].a() == "n1");
  CHECK((*results[0])[0].b() == "n2");
  CHECK((*results[1])[0].a() == "n2");
  CHECK((*results[1])[0].b() == "n3");
  for (const Links& links : results) {
    for (const v1::LinkMeasurement& link : *links) {
      CHECK(link.latency_seconds() > 0);
      CHECK(link.bytes_per_second() > 1e6);  // this is one machine
      CHECK(link.measured_at() > 0);
    }
  }
}

TEST_CASE("links: a pair of one node with itself is refused") {
  for (const auto& pair : {std::pair<int, int>{0, 0}, {0, 2}, {-1, 0}}) {
    const std::vector<Links> results = Measure(2, {pair});
    CHECK(absl::IsInvalidArgument(results[0].status()));
  }
}

}  // namespace pipework
