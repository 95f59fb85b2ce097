#include "scheduler/planning/explain.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "scheduler/planning/planning.h"
#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

using List = std::vector<double>;

v1::Plan Explained(const v1::JobSpec& spec, const List& seconds,
                   const v1::Topology& topology, int64_t bytes = 0) {
  const v1::Graph graph = testing::ChainGraph(static_cast<int>(seconds.size()));
  PlanningOptions options;
  options.explain = true;
  const auto plan =
      PlanJob(spec, graph, testing::ProfileOf(graph, seconds, bytes), topology,
              options);
  REQUIRE(plan.ok());
  return *plan;
}

const v1::Improvement* Find(const v1::Plan& plan, const std::string& change) {
  for (const v1::Improvement& improvement : plan.improvements()) {
    if (improvement.change() == change) return &improvement;
  }
  return nullptr;
}

TEST_CASE("explain: a layer that cannot be split is named") {
  const v1::Plan plan =
      Explained(testing::SpecOf(3), {1, 6, 1}, testing::Cluster(1, 3));
  CHECK(plan.bottleneck() == "stage 1");
  REQUIRE(plan.explanation_size() >= 1);
  CHECK(plan.explanation(0) ==
        "stage 1 computes 6e+03 ms per minibatch, the longest of 3 stages; its "
        "layer l1 alone takes 6e+03 ms and cannot be split");
}

TEST_CASE("explain: even stages are called that, and one more device helps") {
  const v1::Plan even =
      Explained(testing::SpecOf(3), List(12, 1), testing::Cluster(1, 3));
  REQUIRE(even.explanation_size() >= 1);
  CHECK(absl::StrContains(even.explanation(0), "computing itself"));
  const v1::Plan plan =
      Explained(testing::SpecOf(), List(12, 1), testing::Cluster(1, 3));
  const v1::Improvement* more = Find(plan, "one more device");
  REQUIRE(more != nullptr);
  CHECK(more->predicted_step_ms() == Approx(3000));
}

TEST_CASE("explain: a slow link is the bottleneck, and twice as fast helps") {
  v1::Topology topology = testing::Cluster(2, 1);
  topology.set_link_bytes_per_second(10);
  for (v1::Topology::Node& node : *topology.mutable_nodes()) {
    for (v1::Device& device : *node.mutable_devices()) device.clear_cores();
  }
  // 100 bytes there and 100 back: 10 s each way, full duplex.
  const v1::Plan plan =
      Explained(testing::SpecOf(2), {1, 1}, topology, /*bytes=*/100);
  CHECK(plan.bottleneck() == "n1-n2");
  const v1::Improvement* faster =
      Find(plan, "links between nodes twice as fast");
  REQUIRE(faster != nullptr);
  CHECK(faster->predicted_step_ms() < 0.7 * plan.predicted_step_ms());
  REQUIRE(plan.links_size() == 1);
  CHECK(plan.links(0).from() == "n1");
  CHECK(plan.links(0).to() == "n2");
  CHECK(plan.links(0).limit_bytes_per_second() == 10);
  CHECK(plan.links(0).bytes_per_second() ==
        Approx(100e3 / plan.predicted_step_ms()));
}

TEST_CASE("explain: with flush the bubble is told, and microbatches help") {
  v1::JobSpec spec = testing::SpecOf(4);
  spec.mutable_pipeline()->set_schedule("flush");
  spec.mutable_batch()->set_minibatch(64);
  spec.mutable_batch()->set_microbatches(8);
  const v1::Plan plan = Explained(spec, List(4, 3), testing::Cluster(1, 4));
  bool told = false;
  for (const std::string& sentence : plan.explanation()) {
    told |=
        absl::StrContains(sentence, "with 4 stages and 8 microbatches 27 % of");
  }
  CHECK(told);
  const v1::Improvement* more = Find(plan, "batch.microbatches 16");
  REQUIRE(more != nullptr);
  CHECK(more->predicted_step_ms() == Approx(33000.0 * 19 / 16 * 8 / 11));
  for (int i = 1; i < plan.improvements_size(); ++i) {
    CHECK(plan.improvements(i - 1).predicted_step_ms() <=
          plan.improvements(i).predicted_step_ms());
  }
}

TEST_CASE("explain: stages that share cores are told as such") {
  const v1::Plan plan =
      Explained(testing::SpecOf(4), List(8, 1), testing::Cluster(2, 2, 1));
  CHECK(plan.bottleneck() == "cores of n1");
  CHECK(plan.bottleneck_seconds() == Approx(4));
  CHECK(plan.predicted_step_ms() >= 4000 - 1e-6);
}

TEST_CASE("pin costs: the step without each pin stands beside the pin") {
  // Pinned to two stages where four devices would do better.
  const v1::Plan two =
      Explained(testing::SpecOf(2), List(8, 1), testing::Cluster(1, 4));
  REQUIRE(two.pin_costs_size() == 1);
  CHECK(two.pin_costs(0).pin() == "pipeline.stages: 2");
  CHECK(two.pin_costs(0).predicted_step_ms() == Approx(2000));
  CHECK(two.pin_costs(0).cost() == Approx(1));
  // Uneven cuts, pinned.
  v1::JobSpec spec = testing::SpecOf();
  spec.mutable_pipeline()->add_stages()->add_layers("l0..l5");
  spec.mutable_pipeline()->add_stages()->add_layers("l6..l7");
  spec.mutable_pipeline()->mutable_stages(1)->add_devices("n1/cpu:3");
  const v1::Plan uneven = Explained(spec, List(8, 1), testing::Cluster(1, 4));
  REQUIRE(uneven.pin_costs_size() == 3);
  CHECK(uneven.pin_costs(0).pin() == "pipeline.stages: a list of 2");
  CHECK(uneven.pin_costs(1).pin() == "pipeline.stages[].layers");
  CHECK(uneven.pin_costs(1).predicted_step_ms() == Approx(4000));
  CHECK(uneven.pin_costs(1).cost() == Approx(0.5));
  CHECK(uneven.pin_costs(2).pin() == "pipeline.stages[1].devices: n1/cpu:3");
  CHECK(uneven.pin_costs(2).cost() == Approx(0));
  CHECK(Explained(testing::SpecOf(), List(8, 1), testing::Cluster(1, 4))
            .pin_costs()
            .empty());
}

}  // namespace
}  // namespace pipework
