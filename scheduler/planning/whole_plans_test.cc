// What users of comparable systems met: layers that were lost between stages,
// stages with nothing to train, networks with several ends, and plans that
// changed from one measurement to the next.
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "scheduler/planning/planning.h"
#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

PlanningOptions Quick() {
  PlanningOptions options;
  options.rivals = false;
  options.advice = false;
  return options;
}

TEST_CASE("whole plans: no layer is lost, whatever does not divide") {
  for (const int layers : {1, 2, 7, 10, 30, 42, 61, 64}) {
    const v1::Graph graph = testing::ChainGraph(layers);
    // One layer ten times as heavy as the others.
    std::vector<double> seconds(layers, 1);
    seconds[layers / 3] = 10;
    const v1::Profile profile = testing::ProfileOf(graph, seconds, 12);
    for (int stages = 1; stages <= 16; ++stages) {
      CAPTURE(layers, stages);
      const auto plan = PlanJob(testing::SpecOf(stages), graph, profile,
                                testing::Cluster(1, 16), Quick());
      if (stages > layers) {
        REQUIRE_FALSE(plan.ok());
        const std::string text(plan.status().message());
        CHECK(text.find(std::to_string(stages)) != std::string::npos);
        CHECK(text.find(std::to_string(layers)) != std::string::npos);
        continue;
      }
      REQUIRE(plan.ok());
      REQUIRE(plan->stages_size() == stages);
      int next = 0;
      int64_t weights = 0;
      for (const v1::PlanStage& stage : plan->stages()) {
        REQUIRE(stage.layers_size() > 0);
        for (const std::string& layer : stage.layers()) {
          CHECK(layer == graph.layers(next++).name());
        }
        weights += stage.weight_bytes();
      }
      CHECK(next == layers);
      CHECK(weights == 12 * layers);
    }
  }
}

TEST_CASE(
    "whole plans: the slowest part is never longer than the step, nor a link "
    "busier than it can be") {
  std::mt19937 random(7);
  const auto draw = [&random](int most) {
    return static_cast<double>(random() % most + 1);
  };
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const int layers = 2 + static_cast<int>(random() % 7);
    const v1::Graph graph = testing::ChainGraph(layers);
    std::vector<double> seconds;
    for (int l = 0; l < layers; ++l) seconds.push_back(draw(9) * 1e-3);
    v1::Profile profile = testing::ProfileOf(graph, seconds, 1000000);
    for (v1::LayerProfile& layer : *profile.mutable_layers()) {
      layer.set_output_bytes(static_cast<int64_t>(draw(9)) * 200000);
    }
    v1::Topology topology = testing::Cluster(2, 4);
    // Where nodes are far apart, replicas that exchange much sit together.
    topology.set_link_bytes_per_second(draw(9) * 1e7);
    topology.set_local_bytes_per_second(draw(9) * 1e9);
    const auto plan =
        PlanJob(testing::SpecOf(), graph, profile, topology, Quick());
    REQUIRE(plan.ok());
    const double step = plan->predicted_step_ms() * (1 + 1e-9);
    CHECK(plan->bottleneck_seconds() * 1e3 <= step);
    for (const v1::PlanStage& stage : plan->stages()) {
      CHECK(stage.seconds() * 1e3 <= step);
    }
    for (const v1::LinkLoad& link : plan->links()) {
      CHECK(link.bytes_per_second() <=
            link.limit_bytes_per_second() * (1 + 1e-9));
    }
  }
}

TEST_CASE("whole plans: a stage without parameters has nothing to reduce") {
  const v1::Graph graph = testing::ChainGraph(3);
  v1::Profile profile = testing::ProfileOf(graph, {1, 4, 1}, 1000);
  profile.mutable_layers(1)->set_parameter_bytes(0);
  v1::JobSpec spec = testing::SpecOf();
  const int replicas[] = {1, 2, 1};
  for (int s = 0; s < 3; ++s) {
    v1::StageSpec* stage = spec.mutable_pipeline()->add_stages();
    stage->add_layers(graph.layers(s).name());
    stage->set_replicas(replicas[s]);
  }
  const auto plan =
      PlanJob(spec, graph, profile, testing::Cluster(1, 4), Quick());
  REQUIRE(plan.ok());
  CHECK(plan->stages(1).weight_bytes() == 0);
  CHECK(plan->stages(1).stash_bytes() == 0);
  CHECK(plan->stages(1).optimizer_bytes() == 0);
  CHECK(plan->stages(1).seconds() == Approx(2));
  // A replica computes 4 s for each unit, and waits 1 s for the next, which
  // stage 0 admits once the unit before is back.
  CHECK(plan->predicted_step_ms() == Approx(2500));
}

TEST_CASE("whole plans: a network with two inputs and two heads is planned") {
  v1::Graph graph;
  const auto add = [&graph](const std::string& name,
                            const std::vector<std::string>& inputs) {
    v1::Layer* layer = graph.add_layers();
    layer->set_name(name);
    for (const std::string& input : inputs) layer->add_inputs(input);
  };
  add("left", {"x"});
  add("right", {"x"});
  add("both", {"left", "right"});
  add("head1", {"both", "y"});
  add("head2", {"both", "left"});
  const auto plan = PlanJob(
      testing::SpecOf(), graph,
      testing::ProfileOf(graph, std::vector<double>(graph.layers_size(), 1), 8),
      testing::Cluster(1, 3), Quick());
  REQUIRE(plan.ok());
  std::set<std::string> layers;
  for (const v1::PlanStage& stage : plan->stages()) {
    for (const std::string& layer : stage.layers()) {
      CHECK(layers.insert(layer).second);
    }
  }
  CHECK(layers.size() == 5);
}

TEST_CASE("whole plans: measured again, a job is planned the same way") {
  const std::vector<double> measured = {2, 5, 1, 3, 4, 8, 1, 2};
  const v1::Graph graph =
      testing::ChainGraph(static_cast<int>(measured.size()));
  std::set<std::string> plans;
  std::mt19937 random(5);
  std::uniform_real_distribution<double> noise(0.99, 1.01);
  for (int run = 0; run < 5; ++run) {
    std::vector<double> seconds = measured;
    for (double& second : seconds) second *= noise(random);
    const auto plan =
        PlanJob(testing::SpecOf(), graph, testing::ProfileOf(graph, seconds, 8),
                testing::Cluster(2, 2), Quick());
    REQUIRE(plan.ok());
    std::string text;
    for (const v1::PlanStage& stage : plan->stages()) {
      text += std::to_string(stage.first_layer()) + " x" +
              std::to_string(stage.replicas()) + "; ";
    }
    plans.insert(text);
  }
  CHECK(plans.size() == 1);
}

}  // namespace
}  // namespace pipework
