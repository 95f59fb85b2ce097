#include "scheduler/planning/depths.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
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

// One layer in front computes long and keeps much; the one behind has all the
// weights. Two stages take all of the memory, so they fit only one at a time;
// replicas fit, and pay for their all-reduce.
struct OneAtATime {
  v1::Graph graph = testing::ChainGraph(2);
  v1::Profile profile = testing::ProfileOf(graph, {6, 1}, 10);
  v1::Topology topology = testing::Cluster(4, 1);

  OneAtATime() {
    profile.mutable_layers(0)->set_parameter_bytes(0);
    profile.mutable_layers(0)->set_saved_bytes(340);
    profile.mutable_layers(1)->set_parameter_bytes(150);
    topology.set_link_bytes_per_second(10);
    for (v1::Topology::Node& node : *topology.mutable_nodes()) {
      node.mutable_devices(0)->clear_cores();
      node.mutable_devices(0)->set_memory_bytes(680);
    }
  }

  absl::StatusOr<v1::Plan> At(const std::string& in_flight) const {
    v1::JobSpec spec = testing::SpecOf();
    spec.mutable_pipeline()->set_in_flight(in_flight);
    return PlanJob(spec, graph, profile, topology, {});
  }
};

TEST_CASE("depths: auto finds stages that fit only one at a time") {
  const OneAtATime job;
  const auto noam = job.At("noam");
  const auto one = job.At("1");
  const auto any = job.At("auto");
  REQUIRE(noam.ok());
  REQUIRE(one.ok());
  REQUIRE(any.ok());
  CHECK(noam->stages_size() == 1);
  CHECK(one->stages_size() == 2);
  REQUIRE(one->predicted_step_ms() < 0.9 * noam->predicted_step_ms());
  CHECK(any->predicted_step_ms() <= 1.01 * one->predicted_step_ms());
  // The pin of one is worth something, and the plan says how much.
  REQUIRE(one->pin_costs_size() == 1);
  CHECK(one->pin_costs(0).pin() == "pipeline.in_flight: 1");
  CHECK(one->pin_costs(0).predicted_step_ms() == noam->predicted_step_ms());
  CHECK(one->pin_costs(0).cost() ==
        Approx(one->predicted_step_ms() / noam->predicted_step_ms() - 1));
  CHECK(one->pin_costs(0).cost() < 0);
}

TEST_CASE("depths: auto is as fast as any depth that its plan shows") {
  for (const int64_t memory : {0, 900, 1300, 2000}) {
    for (const double transfer : {0.0, 0.5, 2.0}) {
      CAPTURE(memory, transfer);
      const auto any = FourStages("auto", transfer, memory);
      REQUIRE(any.ok());
      for (const v1::Depth& depth : any->depths()) {
        CAPTURE(depth.in_flight());
        const auto fixed =
            FourStages(absl::StrCat(depth.in_flight()), transfer, memory);
        if (!fixed.ok()) continue;
        CHECK(any->predicted_step_ms() <= 1.01 * fixed->predicted_step_ms());
      }
    }
  }
  const OneAtATime job;
  const auto any = job.At("auto");
  REQUIRE(any.ok());
  for (int depth = 1; depth <= 8; ++depth) {
    CAPTURE(depth);
    const auto fixed = job.At(absl::StrCat(depth));
    if (!fixed.ok()) continue;
    CHECK(any->predicted_step_ms() <= 1.01 * fixed->predicted_step_ms());
  }
}

// Simulated all the way this takes a minute.
TEST_CASE(
    "depths: a pipe far deeper than it needs to be is as fast as one that is "
    "deep enough, and takes its memory and staleness") {
  const auto deep = FourStages("1000", 1);
  const auto deepest = FourStages("65536", 1);
  REQUIRE(deep.ok());
  REQUIRE(deepest.ok());
  CHECK(deepest->in_flight() == 65536);
  CHECK(deepest->predicted_step_ms() == Approx(3000));
  CHECK(deep->predicted_step_ms() == Approx(3000));
  for (int s = 0; s < 3; ++s) {
    CAPTURE(s);
    // Two times 100 bytes for each unit and 100 for its version.
    CHECK(deepest->stages(s).warmup() > 65 * deep->stages(s).warmup());
    CHECK(deepest->stages(s).total_bytes() >
          65 * deep->stages(s).total_bytes());
    CHECK(deep->stages(s).staleness() ==
          Approx(deep->stages(s).warmup()).epsilon(0.05));
    CHECK(deepest->stages(s).staleness() ==
          Approx(deepest->stages(s).warmup()).epsilon(0.05));
  }
  CHECK(deepest->stages(3).staleness() == 0);
}

// A transfer of 100 s behind stages of 3 s: 16 times NOAM are too few.
TEST_CASE("depths: a pipe that long transfers keep empty is simulated deeper") {
  const auto deep = FourStages("1000", 300);
  REQUIRE(deep.ok());
  CHECK(deep->predicted_step_ms() == Approx(3000));
  CHECK(FourStages("64", 300)->predicted_step_ms() > 1.5 * 3000);
}

}  // namespace
}  // namespace pipework
