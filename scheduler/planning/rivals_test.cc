#include "scheduler/planning/rivals.h"

#include <catch2/catch.hpp>
#include <map>

#include "scheduler/planning/planning.h"
#include "scheduler/schedules/schedule.h"
#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

using Rivals = std::multimap<std::string, v1::Rival>;

Rivals RivalsOf(const v1::Plan& plan) {
  Rivals rivals;
  for (const v1::Rival& rival : plan.rivals()) {
    rivals.emplace(rival.name(), rival);
  }
  return rivals;
}

const v1::Rival& One(const Rivals& rivals, const std::string& name) {
  REQUIRE(rivals.count(name) == 1);
  return rivals.find(name)->second;
}

// Equal layers of one second, a third of it forward, on devices of one node.
v1::Plan FourDevices(int layers, int64_t memory = 0) {
  const v1::Graph graph = testing::ChainGraph(layers);
  const v1::Profile profile =
      testing::ProfileOf(graph, std::vector<double>(layers, 1), 100);
  v1::Topology topology = testing::Cluster(1, 4);
  for (v1::Device& device : *topology.mutable_nodes(0)->mutable_devices()) {
    device.set_memory_bytes(memory);
  }
  v1::JobSpec spec = testing::SpecOf();
  spec.mutable_batch()->set_minibatch(32);
  const auto plan = PlanJob(spec, graph, profile, topology, {});
  REQUIRE(plan.ok());
  return *plan;
}

// The profile is of 8 samples, the minibatch has 32: a layer takes 4 s.
TEST_CASE("rivals: each is what its schedule makes of the same devices") {
  const Rivals rivals = RivalsOf(FourDevices(8));
  CHECK(One(rivals, "one_device").predicted_step_ms() == Approx(32000));
  CHECK(One(rivals, "data_parallel").predicted_step_ms() == Approx(8000));
  CHECK(One(rivals, "data_parallel").staleness() == 0);
  CHECK(One(rivals, "data_parallel").speedup_over_data_parallel() == 1);
  // No two minibatches at once: as one device, on four.
  CHECK(One(rivals, "model_parallel").predicted_step_ms() == Approx(32000));
  CHECK(One(rivals, "model_parallel").staleness() == 0);
  CHECK(One(rivals, "straight").predicted_step_ms() == Approx(8000));
  CHECK(One(rivals, "straight").staleness() == Approx(3));
  CHECK(One(rivals, "straight").detail() == "4 stages");
  for (const auto& [name, rival] : rivals) {
    CAPTURE(name, rival.detail());
    CHECK(rival.feasible());
    CHECK(rival.reason().empty());
    CHECK(rival.total_bytes() >= rival.largest_bytes());
    CHECK(rival.largest_bytes() > 0);
    CHECK(rival.samples_per_second() ==
          Approx(32e3 / rival.predicted_step_ms()));
  }
}

// A minibatch of m microbatches on P equal stages takes m + P - 1 of them.
TEST_CASE(
    "rivals: flush and gpipe pay their bubble, less with more microbatches") {
  for (const char* schedule : {"flush", "gpipe"}) {
    if (!FindSchedule(schedule).ok()) continue;
    const Rivals rivals = RivalsOf(FourDevices(8));
    const auto [begin, end] = rivals.equal_range(schedule);
    std::vector<double> steps;
    for (auto it = begin; it != end; ++it) {
      steps.push_back(it->second.predicted_step_ms());
    }
    CAPTURE(schedule);
    // 4, 8 and 16 microbatches; 8 s of computing in each stage.
    REQUIRE(steps.size() == 3);
    CHECK(steps[0] == Approx(8000 * 7.0 / 4));
    CHECK(steps[1] == Approx(8000 * 11.0 / 8));
    CHECK(steps[2] == Approx(8000 * 19.0 / 16));
  }
}

TEST_CASE("rivals: hybrid replicates the front and pipelines nothing") {
  const v1::Plan plan = FourDevices(8);
  const v1::Rival& hybrid = One(RivalsOf(plan), "hybrid");
  CHECK(hybrid.staleness() == 0);
  CHECK(hybrid.predicted_step_ms() > plan.predicted_step_ms());
  // Some of it runs on all front replicas at once.
  CHECK(hybrid.predicted_step_ms() < 32000);
}

TEST_CASE("rivals: one that does not fit says which stage needs how much") {
  // Eight layers of 100 bytes of weights and as many gradients, and 400 of
  // output for each unit; a quarter of that fits easily.
  const Rivals rivals = RivalsOf(FourDevices(8, 4000));
  const v1::Rival& one = One(rivals, "one_device");
  CHECK_FALSE(one.feasible());
  CHECK(one.reason() ==
        "plan: stage 0 on n1/cpu:0 needs 4.7 KiB with 1 weight version and 1 "
        "unit in flight, expected at most 3.9 KiB");
  CHECK(one.samples_per_second() == 0);
  CHECK(One(rivals, "model_parallel").feasible());
}

TEST_CASE("rivals: one of a kind is told as one") {
  const v1::Graph graph = testing::ChainGraph(2);
  v1::JobSpec spec = testing::SpecOf();
  spec.mutable_batch()->set_minibatch(4);
  const auto plan = PlanJob(spec, graph, testing::ProfileOf(graph, {1, 1}, 1),
                            testing::Cluster(1, 1), {});
  REQUIRE(plan.ok());
  const Rivals rivals = RivalsOf(*plan);
  CHECK(One(rivals, "data_parallel").detail() == "1 replica");
  REQUIRE(rivals.count("flush") > 0);
  CHECK(rivals.find("flush")->second.detail() == "1 stage, 1 microbatch");
}

}  // namespace
}  // namespace pipework
