#include "scheduler/planning/depths.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "scheduler/planning/planning.h"
#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

// Four equal layers with F = 1 and B = 2, each on a node of its own; one way
// between two nodes takes `transfer` seconds.
absl::StatusOr<v1::Plan> FourStages(const std::string& in_flight,
                                    double transfer, int64_t memory = 0) {
  const v1::Graph graph = testing::ChainGraph(4);
  const v1::Profile profile = testing::ProfileOf(graph, {3, 3, 3, 3}, 100);
  v1::Topology topology = testing::Cluster(4, 1);
  topology.set_link_latency_seconds(transfer);
  for (v1::Topology::Node& node : *topology.mutable_nodes()) {
    for (v1::Device& device : *node.mutable_devices()) {
      // Only links cost time here, not the cores that feed them.
      device.clear_cores();
      device.set_memory_bytes(memory);
    }
  }
  v1::JobSpec spec = testing::SpecOf(4);
  spec.mutable_pipeline()->set_in_flight(in_flight);
  return PlanJob(spec, graph, profile, topology, {});
}

// The period of 1F1B is, over runs of l adjacent stages, the largest of
// (l (F + B) + 2 (l - 1) c) / l; 2 (P - 1 - s) forwards before the first
// backward hide c.
TEST_CASE(
    "depths: transfers stretch the period as the formula says, and a deeper "
    "pipe restores it") {
  CHECK(FourStages("noam", 0)->predicted_step_ms() == Approx(3000));
  CHECK(FourStages("noam", 1)->predicted_step_ms() == Approx(4500));
  CHECK(FourStages("noam", 2)->predicted_step_ms() == Approx(6000));
  CHECK(FourStages("noam", 3)->predicted_step_ms() == Approx(7500));
  const auto deeper = FourStages("auto", 1);
  REQUIRE(deeper.ok());
  CHECK(deeper->predicted_step_ms() == Approx(3000));
  CHECK(deeper->in_flight() > 4);
  CHECK(deeper->in_flight() <= 8);
  CHECK(FourStages("7", 1)->predicted_step_ms() == Approx(3000));
}

TEST_CASE("depths: where transfers are free auto is not deeper than noam") {
  const auto plan = FourStages("auto", 0);
  REQUIRE(plan.ok());
  CHECK(plan->in_flight() == 4);
  CHECK(plan->predicted_step_ms() == Approx(3000));
}

TEST_CASE("depths: auto stays within memory, where noam would be refused") {
  // A stage takes 100 for each version, for the gradient, and two times for
  // each unit in flight: 500 for one unit and two versions.
  const auto noam = FourStages("noam", 1, 900);
  CHECK_FALSE(noam.ok());
  CHECK(std::string(noam.status().message()).find("pipeline.in_flight") !=
        std::string::npos);
  const auto plan = FourStages("auto", 1, 900);
  REQUIRE(plan.ok());
  CHECK(plan->in_flight() < 4);
  for (const v1::PlanStage& stage : plan->stages()) {
    CHECK(stage.total_bytes() <= 900);
  }
}

TEST_CASE(
    "depths: the table shows what each depth buys and costs, the chosen one "
    "among them") {
  const auto plan = FourStages("auto", 1);
  REQUIRE(plan.ok());
  int last = 0;
  double staleness = -1;
  bool own = false;
  for (const v1::Depth& depth : plan->depths()) {
    CHECK(depth.in_flight() > last);
    CHECK(depth.staleness() >= staleness);
    CHECK(depth.feasible());
    last = depth.in_flight();
    staleness = depth.staleness();
    if (depth.in_flight() == plan->in_flight()) {
      own = true;
      CHECK(depth.predicted_step_ms() == plan->predicted_step_ms());
    }
  }
  CHECK(own);
  CHECK(plan->depths(0).in_flight() == 1);
  CHECK(plan->depths(0).staleness() == 0);
  // One at a time: four stages and six transfers.
  CHECK(plan->depths(0).predicted_step_ms() == Approx(18000));
  CHECK(last == 8);
  CHECK(plan->depths(plan->depths_size() - 1).largest_bytes() >
        plan->depths(0).largest_bytes());
}

// NOAM counts rounds of the first stage: with one device in front of nine it
// admits too few minibatches for all nine to be busy.
TEST_CASE(
    "depths: a replicated stage behind a single one is filled by a deeper "
    "pipe, and the plan shows it") {
  const v1::Graph graph = testing::ChainGraph(3);
  const v1::Profile profile = testing::ProfileOf(graph, {1, 9, 1});
  v1::JobSpec spec = testing::SpecOf();
  for (const int replicas : {1, 9, 1}) {
    spec.mutable_pipeline()->add_stages()->set_replicas(replicas);
  }
  const auto at = [&](const std::string& in_flight) {
    spec.mutable_pipeline()->set_in_flight(in_flight);
    return PlanJob(spec, graph, profile, testing::Cluster(1, 11), {});
  };
  const auto noam = at("noam");
  const auto deeper = at("auto");
  REQUIRE(noam.ok());
  REQUIRE(deeper.ok());
  CHECK(deeper->predicted_step_ms() < 0.95 * noam->predicted_step_ms());
  CHECK(deeper->in_flight() > noam->in_flight());
  // The plan at NOAM tells of the gain.
  double shortest = noam->predicted_step_ms();
  for (const v1::Depth& depth : noam->depths()) {
    shortest = std::min(shortest, depth.predicted_step_ms());
  }
  CHECK(shortest <= 1.01 * deeper->predicted_step_ms());
}

}  // namespace
}  // namespace pipework
