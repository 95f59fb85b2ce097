// Plans of many small random jobs against all that could have been planned.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "partitioner/algorithms/brute_force.h"
#include "partitioner/algorithms/mixed.h"
#include "scheduler/planning/planning.h"
#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

using List = std::vector<double>;

struct Job {
  v1::Graph graph;
  v1::Profile profile;
};

// Layers of up to 8 s, outputs and weights of up to 30 bytes.
Job RandomJob(std::mt19937* random, int layers) {
  Job job;
  job.graph = testing::ChainGraph(layers);
  List seconds;
  for (int l = 0; l < layers; ++l) {
    seconds.push_back(1.0 + (*random)() % 8);
  }
  job.profile = testing::ProfileOf(job.graph, seconds);
  for (v1::LayerProfile& layer : *job.profile.mutable_layers()) {
    layer.set_output_bytes((*random)() % 30);
    layer.set_parameter_bytes((*random)() % 30);
  }
  return job;
}

v1::Topology RandomNode(std::mt19937* random, int devices) {
  v1::Topology topology = testing::Cluster(1, devices);
  topology.set_local_bytes_per_second(2.0 + (*random)() % 20);
  return topology;
}

v1::JobSpec Pinned(const std::vector<StageCut>& cuts) {
  v1::JobSpec spec = testing::SpecOf();
  for (const StageCut& cut : cuts) {
    v1::StageSpec* stage = spec.mutable_pipeline()->add_stages();
    stage->set_replicas(cut.replicas);
    for (int l = cut.first; l <= cut.last; ++l) {
      stage->add_layers(absl::StrCat("l", l));
    }
  }
  return spec;
}

PlanningOptions Alone() {
  PlanningOptions options;
  options.rivals = false;
  return options;
}

// An automatic split was once slower than one by hand.
TEST_CASE(
    "planning: with the paper's costs no cuts and replicas have a shorter "
    "bottleneck") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int layers = 1 + random() % 10;
    const int devices = 1 + random() % 4;
    const Job job = RandomJob(&random, layers);
    const v1::Topology topology = RandomNode(&random, devices);
    PlanningOptions options = Alone();
    options.cost_model = "paper";
    const auto plan =
        PlanJob(testing::SpecOf(), job.graph, job.profile, topology, options);
    REQUIRE(plan.ok());
    PartitionInput input;
    for (const v1::LayerProfile& layer : job.profile.layers()) {
      input.layer_seconds.push_back(layer.forward_seconds() +
                                    layer.backward_seconds());
      input.weight_bytes.push_back(layer.parameter_bytes());
      input.cut_bytes.push_back(layer.output_bytes());
    }
    input.levels = {{devices, {topology.local_bytes_per_second(), 0}}};
    input.cost_model = *FindCostModel("paper");
    CAPTURE(round, layers, devices);
    CHECK(plan->bottleneck_seconds() == Approx(testing::BestSeconds(input)));
  }
}

TEST_CASE(
    "planning: no way to cut and replicate has a shorter predicted step") {
  std::mt19937 random(11);
  for (int round = 0; round < 12; ++round) {
    const int layers = 2 + random() % 4;
    const int devices = 2 + random() % 2;
    const Job job = RandomJob(&random, layers);
    const v1::Topology topology = RandomNode(&random, devices);
    const auto plan =
        PlanJob(testing::SpecOf(), job.graph, job.profile, topology, Alone());
    REQUIRE(plan.ok());
    for (int used = 1; used <= devices; ++used) {
      PartitionInput input;
      input.layer_seconds.resize(layers);
      input.weight_bytes.resize(layers);
      input.cut_bytes.resize(layers);
      input.levels = {{used, {}}};
      testing::ForEachPartition(input, [&](const std::vector<StageCut>& cuts) {
        const auto other =
            PlanJob(Pinned(cuts), job.graph, job.profile, topology, Alone());
        REQUIRE(other.ok());
        CAPTURE(round, layers, devices, used);
        CHECK(plan->predicted_step_ms() <= 1.011 * other->predicted_step_ms());
      });
    }
  }
}

TEST_CASE("planning: a large job is never planned worse than evenly cut") {
  std::mt19937 random(13);
  for (int round = 0; round < 6; ++round) {
    const int stages = 6;
    const Job job = RandomJob(&random, 4 * stages);
    const v1::Topology topology = RandomNode(&random, stages);
    std::vector<StageCut> even;
    for (int s = 0; s < stages; ++s) even.push_back({4 * s, 4 * s + 3, 1});
    const auto plan =
        PlanJob(testing::SpecOf(), job.graph, job.profile, topology, Alone());
    const auto uniform =
        PlanJob(Pinned(even), job.graph, job.profile, topology, Alone());
    REQUIRE(plan.ok());
    REQUIRE(uniform.ok());
    CHECK(plan->predicted_step_ms() <= 1.011 * uniform->predicted_step_ms());
  }
}

// The bottleneck is what the step cannot be shorter than, sharing counted.
TEST_CASE("planning: no step is shorter than its bottleneck") {
  std::mt19937 random(17);
  for (int round = 0; round < 20; ++round) {
    const Job job = RandomJob(&random, 8);
    v1::Topology topology = testing::Cluster(2, 2, round % 2);
    const auto plan = PlanJob(testing::SpecOf(round % 3 == 0 ? 0 : 4),
                              job.graph, job.profile, topology, Alone());
    REQUIRE(plan.ok());
    CAPTURE(round, plan->bottleneck());
    CHECK(plan->predicted_step_ms() >=
          1e3 * plan->bottleneck_seconds() * (1 - 1e-9));
  }
}

// x -> a -> (p1 -> p2, q1 -> q2) -> d -> loss, where an even cut has to take a
// part of each branch.
TEST_CASE("planning: stages cut across branches where that is faster") {
  v1::Graph graph;
  for (const char* name : {"a", "p1", "p2", "q1", "q2", "d", "loss"}) {
    graph.add_layers()->set_name(name);
  }
  graph.mutable_layers(3)->add_inputs("a");
  graph.mutable_layers(5)->add_inputs("p2");
  graph.mutable_layers(5)->add_inputs("q2");
  const v1::Profile profile = testing::ProfileOf(graph, {0, 3, 5, 1, 1, 0, 0});
  const auto plan = PlanJob(testing::SpecOf(2), graph, profile,
                            testing::Cluster(1, 2), Alone());
  REQUIRE(plan.ok());
  CHECK(plan->predicted_step_ms() == Approx(5000));
  const std::vector<std::string> order(plan->layer_order().begin(),
                                       plan->layer_order().end());
  CHECK(order ==
        std::vector<std::string>{"a", "p1", "q1", "q2", "p2", "d", "loss"});
  CHECK(plan->stages(0).end_layer() == 4);
  CHECK(plan->stages(1).layers(0) == "p2");
  // Pinned the other way round it is the same plan; a wrong order is refused
  // with both layers.
  v1::JobSpec spec = testing::SpecOf();
  v1::StageSpec* first = spec.mutable_pipeline()->add_stages();
  for (const char* name : {"q1", "a", "q2", "p1"}) first->add_layers(name);
  v1::StageSpec* second = spec.mutable_pipeline()->add_stages();
  for (const char* name : {"p2", "d", "loss"}) second->add_layers(name);
  const auto pinned =
      PlanJob(spec, graph, profile, testing::Cluster(1, 2), Alone());
  REQUIRE(pinned.ok());
  CHECK(pinned->predicted_step_ms() == Approx(5000));
  CHECK(pinned->layer_order_size() == 7);
  first->add_layers("d");
  second->mutable_layers()->DeleteSubrange(1, 1);
  CHECK(PlanJob(spec, graph, profile, testing::Cluster(1, 2), Alone())
            .status()
            .message() ==
        "pipeline.stages[0].layers: \"d\" is before \"p2\" in "
        "pipeline.stages[1], expected in the same stage or a later one; it "
        "reads its output");
}

// One device of two computes three times as fast.
TEST_CASE("planning: a fast device gets more layers, a slow one is no burden") {
  const v1::Graph graph = testing::ChainGraph(8);
  const v1::Profile profile = testing::ProfileOf(graph, List(8, 1));
  v1::Topology topology = testing::Cluster(1, 2);
  topology.mutable_nodes(0)->mutable_devices(0)->set_relative_speed(3);
  const auto plan =
      PlanJob(testing::SpecOf(2), graph, profile, topology, Alone());
  REQUIRE(plan.ok());
  // Four layers on the slow one would take 4 s.
  CHECK(plan->predicted_step_ms() <= 4000 + 1e-6);
  const auto free =
      PlanJob(testing::SpecOf(), graph, profile, topology, Alone());
  REQUIRE(free.ok());
  // Never slower than the fast one alone.
  CHECK(free->predicted_step_ms() <= 8000.0 / 3 + 1e-6);
}

// ---- devices that differ ----------------------------------------------------

struct MixedJob {
  Job job;
  v1::Topology topology;
  std::vector<double> speeds;

  // Seconds of layers first..last on device d.
  double Seconds(int first, int last, size_t d) const {
    double seconds = 0;
    for (int l = first; l <= last; ++l) {
      seconds += job.profile.layers(l).forward_seconds() +
                 job.profile.layers(l).backward_seconds();
    }
    return seconds / speeds[d];
  }
};

// Up to 8 layers, up to 5 devices; links are free and nothing is large.
MixedJob RandomMixedJob(std::mt19937* random) {
  MixedJob mixed;
  mixed.job = RandomJob(random, 2 + (*random)() % 7);
  for (v1::LayerProfile& layer : *mixed.job.profile.mutable_layers()) {
    layer.set_output_bytes(0);
    layer.set_parameter_bytes(0);
  }
  const int devices = 2 + (*random)() % 4;
  mixed.topology = testing::Cluster(1, devices);
  for (v1::Device& device :
       *mixed.topology.mutable_nodes(0)->mutable_devices()) {
    mixed.speeds.push_back(1.0 + (*random)() % 4);
    device.set_relative_speed(mixed.speeds.back());
  }
  return mixed;
}

// Seconds of layers first..last on all devices of `set`, by the formula.
double StageOn(const MixedJob& mixed, int first, int last, unsigned set) {
  std::vector<double> each;
  for (size_t d = 0; d < mixed.speeds.size(); ++d) {
    if ((set >> d & 1) != 0) each.push_back(mixed.Seconds(first, last, d));
  }
  std::vector<int> shares = SharesFor(each);
  if (shares.empty()) shares.assign(each.size(), 1);
  double slowest = 0;
  double round = 0;
  for (size_t q = 0; q < each.size(); ++q) {
    slowest = std::max(slowest, each[q] * shares[q]);
    round += shares[q];
  }
  return slowest / round;
}

// The shortest bottleneck of all cuts over all sets of devices.
double ShortestBottleneck(const MixedJob& mixed) {
  const int layers = mixed.job.graph.layers_size();
  const unsigned all = (1U << mixed.speeds.size()) - 1;
  // By layers done and devices taken.
  std::vector<List> best(layers + 1, List(all + 1, 1e9));
  best[0][0] = 0;
  for (int first = 0; first < layers; ++first) {
    for (unsigned used = 0; used <= all; ++used) {
      if (best[first][used] >= 1e9) continue;
      for (int last = first; last < layers; ++last) {
        for (unsigned set = 1; set <= all; ++set) {
          if ((set & used) != 0) continue;
          double& cell = best[last + 1][used | set];
          cell = std::min(cell, std::max(best[first][used],
                                         StageOn(mixed, first, last, set)));
        }
      }
    }
  }
  return *std::min_element(best[layers].begin(), best[layers].end());
}

TEST_CASE(
    "planning: on devices that differ the step is within 2 % of the shortest "
    "bottleneck of all layouts") {
  std::mt19937 random(19);
  for (int round = 0; round < 40; ++round) {
    const MixedJob mixed = RandomMixedJob(&random);
    v1::JobSpec spec = testing::SpecOf();
    // Not the depth of the pipe is asked here.
    spec.mutable_pipeline()->set_in_flight("auto");
    const auto plan = PlanJob(spec, mixed.job.graph, mixed.job.profile,
                              mixed.topology, Alone());
    REQUIRE(plan.ok());
    CAPTURE(round, mixed.job.graph.layers_size(), mixed.speeds.size());
    const double shortest = ShortestBottleneck(mixed);
    CHECK(plan->bottleneck_seconds() <= 1.02 * shortest);
    CHECK(plan->bottleneck_seconds() >= shortest * (1 - 1e-9));
  }
}

TEST_CASE("planning: slower devices never make a plan slower") {
  std::mt19937 random(23);
  for (int round = 0; round < 25; ++round) {
    MixedJob mixed = RandomMixedJob(&random);
    for (v1::LayerProfile& layer : *mixed.job.profile.mutable_layers()) {
      layer.set_output_bytes(random() % 30);
      layer.set_parameter_bytes(random() % 30);
    }
    mixed.topology.set_local_bytes_per_second(5.0 + random() % 20);
    const auto plan = PlanJob(testing::SpecOf(), mixed.job.graph,
                              mixed.job.profile, mixed.topology, Alone());
    REQUIRE(plan.ok());
    for (double slowest = 2; slowest <= 4; ++slowest) {
      v1::Topology faster = mixed.topology;
      auto* devices = faster.mutable_nodes(0)->mutable_devices();
      for (int d = devices->size() - 1; d >= 0; --d) {
        if (devices->Get(d).relative_speed() < slowest) {
          devices->DeleteSubrange(d, 1);
        }
      }
      if (devices->empty()) continue;
      const auto fewer = PlanJob(testing::SpecOf(), mixed.job.graph,
                                 mixed.job.profile, faster, Alone());
      REQUIRE(fewer.ok());
      CAPTURE(round, slowest);
      CHECK(plan->predicted_step_ms() <= 1.011 * fewer->predicted_step_ms());
    }
  }
}

// Rings and messages share the links: their sum once came to several times
// what a link can carry.
TEST_CASE("planning: no link carries more than it can") {
  std::mt19937 random(29);
  for (int round = 0; round < 20; ++round) {
    const Job job = RandomJob(&random, 6);
    v1::Topology topology = testing::Cluster(3, 2);
    topology.set_local_bytes_per_second(2.0 + random() % 9);
    topology.set_link_bytes_per_second(1.0 + random() % 9);
    const auto plan =
        PlanJob(testing::SpecOf(), job.graph, job.profile, topology, Alone());
    REQUIRE(plan.ok());
    for (const v1::LinkLoad& link : plan->links()) {
      CAPTURE(round, link.from(), link.to());
      CHECK(link.limit_bytes_per_second() > 0);
      CHECK(link.bytes_per_second() <=
            link.limit_bytes_per_second() * (1 + 1e-9));
    }
  }
}

}  // namespace
}  // namespace pipework
