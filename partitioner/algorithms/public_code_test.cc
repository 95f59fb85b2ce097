#include "partitioner/algorithms/public_code.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "partitioner/graph_text.h"

namespace pipework {
namespace {

LayerGraph Published(const std::string& name) {
  std::ifstream in("testdata/profiles/" + name + "/graph.txt");
  REQUIRE(in.good());
  std::stringstream text;
  text << in.rdbuf();
  const auto profile = ParseGraphText(text.str(), name);
  REQUIRE(profile.ok());
  const auto graph =
      MakeLayerGraph(*GraphOfProfile(*profile), *profile, /*scale=*/1);
  REQUIRE(graph.ok());
  return *graph;
}

PublicCodeOptions On(std::vector<Level> levels) {
  PublicCodeOptions options;
  options.levels = std::move(levels);
  return options;
}

PublicCodePlan Plan(const std::string& name, const PublicCodeOptions& options) {
  const auto plan = PublicCode(Published(name), options);
  REQUIRE(plan.ok());
  return *plan;
}

// Relative, as good as the goldens are printed.
bool Same(double seconds, double golden) {
  return std::abs(seconds - golden) < 1e-9 * golden;
}

// The machines of every stage, and whether the stages are all of the graph in
// order.
std::string Text(const PublicCodePlan& plan) {
  std::string text;
  int first = 0;
  for (const StageCut& stage : plan.partition.workers) {
    CHECK(stage.first == first);
    absl::StrAppend(&text, "(", stage.first, "-", stage.last + 1, ")x",
                    stage.replicas, " ");
    first = stage.last + 1;
  }
  CHECK(first == plan.states.size());
  return text;
}

constexpr double kG = 1e9;
const std::vector<Level> kFour = {{4, {kG, 0}}};
const std::vector<Level> kSixteen = {{16, {1.25 * kG, 0}}};
const std::vector<Level> kFourByFour = {{4, {8 * kG, 0}}, {4, {1.25 * kG, 0}}};
const std::vector<Level> kEightByTwo = {{8, {25 * kG, 0}},
                                        {2, {3.125 * kG, 0}}};

TEST_CASE("public code: its answers on the published profiles") {
  struct Golden {
    const char* profile;
    std::vector<Level> levels;
    double seconds;
  };
  for (const Golden& golden : std::vector<Golden>{
           {"vgg16", kFour, 0.17573262400000003},
           {"vgg16", kSixteen, 0.04658748873086419},
           {"vgg16", kFourByFour, 0.04430422746666667},
           {"vgg16", kEightByTwo, 0.0463845862},
           {"alexnet", kFour, 0.023165752},
           {"alexnet", kSixteen, 0.007059595200000002},
           {"alexnet", kFourByFour, 0.006127348000000005},
           {"alexnet", kEightByTwo, 0.005510967377777777},
           {"resnet50", kFour, 0.11149699999999985},
           {"resnet50", kSixteen, 0.02921199999999996},
           {"resnet50", kFourByFour, 0.028791527999999993},
           {"resnet50", kEightByTwo, 0.028198415479999996},
           {"resnet18", kFour, 0.06591800000000006},
           {"resnet18", kFourByFour, 0.01713030000000001},
           {"squeezenet1_0", kFour, 0.07232884266666666},
           {"squeezenet1_0", kFourByFour, 0.0181609992},
           {"gnmt", {{4, {8 * kG, 0}}}, 0.025868000000000002},
           {"gnmt", kFourByFour, 0.011081000000000008},
           {"gnmt", kEightByTwo, 0.009893226631111108},
       }) {
    CAPTURE(golden.profile, golden.levels.size(), golden.seconds);
    const PublicCodePlan plan = Plan(golden.profile, On(golden.levels));
    CAPTURE(plan.partition.seconds);
    CHECK(Same(plan.partition.seconds, golden.seconds));
  }
}

TEST_CASE("public code: its answers where cuts cost their bytes") {
  PublicCodeOptions options = On(kFour);
  PublicCodePlan plan = Plan("vgg16", options);
  CHECK(Same(plan.partition.seconds, 0.175732624));
  CHECK(Text(plan) == "(0-15)x3 (15-40)x1 ");

  options.activation_compression_ratio = 1;
  plan = Plan("vgg16", options);
  CHECK(Same(plan.partition.seconds, 0.205520896));
  CHECK(Text(plan) == "(0-17)x3 (17-40)x1 ");

  options.levels = {{4, {1e10, 0}}};
  plan = Plan("vgg16", options);
  CHECK(Same(plan.partition.seconds, 0.1701790624));
  CHECK(Text(plan) == "(0-15)x3 (15-40)x1 ");

  options.levels = {{16, {kG, 0}}};
  CHECK(Same(Plan("vgg16", options).partition.seconds, 0.05652976738461538));
  options.activation_compression_ratio = 0;
  CHECK(Same(Plan("vgg16", options).partition.seconds, 0.04738646));
  options.activation_compression_ratio = 1;
  options.levels = {{4, {1e10, 0}}, {4, {1.25e9, 0}}};
  CHECK(Same(Plan("vgg16", options).partition.seconds, 0.06713399693333333));
}

TEST_CASE("public code: a straight pipeline replicates nothing") {
  PublicCodeOptions options = On(kFour);
  options.straight = true;
  const PublicCodePlan plan = Plan("vgg16", options);
  CHECK(Same(plan.partition.seconds, 0.21645));
  for (const StageCut& stage : plan.partition.workers) {
    CHECK(stage.replicas == 1);
  }
  CHECK(plan.partition.workers.size() == 4);
  options.activation_compression_ratio = 1;
  CHECK(Same(Plan("vgg16", options).partition.seconds, 0.411041792));
}

TEST_CASE("public code: a memory limit rules stages out") {
  PublicCodeOptions options = On(kFour);
  options.memory_limit_bytes = 8e9;
  CHECK(Same(Plan("resnet18", options).partition.seconds, 0.065918));
  CHECK(Same(Plan("squeezenet1_0", options).partition.seconds,
             0.07292499999999996));
  options.memory_limit_bytes = 1000;
  // All machines as replicas of one stage hold no second copy.
  CHECK(Text(Plan("squeezenet1_0", options)).find("x4 ") != std::string::npos);
  options.straight = true;
  const auto none = PublicCode(Published("squeezenet1_0"), options);
  CHECK(none.status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("public code: its gain over data parallel") {
  PublicCodePlan plan = Plan("vgg16", On(kFourByFour));
  CHECK(Same(plan.data_parallel_seconds / plan.partition.seconds,
             3.1152553952970248));
  plan = Plan("vgg16", On(kEightByTwo));
  CHECK(Same(plan.data_parallel_seconds / plan.partition.seconds,
             1.4878468093351234));
}

void AddLayer(LayerGraph* graph, std::vector<int> inputs, double seconds,
              int64_t parameter_bytes) {
  LayerGraph::Node node;
  node.inputs = std::move(inputs);
  node.cost.forward_seconds = seconds;
  node.cost.parameter_bytes = parameter_bytes;
  graph->nodes.push_back(std::move(node));
}

// The best of all chains of states and all replicas, the plain way.
double Brute(const StateGraph& states, int before, int machines,
             const CostModel& model, const Link& link) {
  double best = std::numeric_limits<double>::infinity();
  for (int j = 0; j < states.size(); ++j) {
    const State& state = states.states[j];
    StageLoad load;
    load.compute_seconds = state.compute_seconds;
    load.weight_bytes = state.parameter_bytes;
    if (before >= 0) {
      const std::vector<int>& inside = state.predecessors;
      if (std::count(inside.begin(), inside.end(), before) == 0) continue;
      load.compute_seconds -= states.states[before].compute_seconds;
      load.weight_bytes -= states.states[before].parameter_bytes;
    }
    const bool last = j + 1 == states.size();
    for (int m = last ? machines : 1; m <= (last ? machines : machines - 1);
         ++m) {
      double seconds = model.StageSeconds(load, m, link);
      if (!last) {
        seconds =
            std::max(seconds, Brute(states, j, machines - m, model, link));
      }
      best = std::min(best, seconds);
    }
  }
  return best;
}

TEST_CASE("public code: no chain of its states is better, on random graphs") {
  std::mt19937 random(7);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint32_t>(n));
  };
  int branching = 0;
  for (int round = 0; round < 300; ++round) {
    LayerGraph graph;
    const int layers = 1 + below(7);
    for (int n = 0; n < layers; ++n) {
      std::vector<int> inputs;
      if (n > 0) inputs = {below(n)};
      if (n > 1 && below(2) == 0) inputs = {n - 1, below(n - 1)};
      AddLayer(&graph, inputs, below(6), below(40));
    }
    const Level level = {1 + below(4), {1.0 + below(20), 0}};
    const auto plan = PublicCode(graph, On({level}));
    REQUIRE(plan.ok());
    if (plan->states.size() > layers) ++branching;
    const double best = Brute(plan->states, -1, level.components,
                              **FindCostModel("public_code"), level.link);
    CHECK(plan->partition.seconds == Approx(best).margin(1e-12));
    // Its stages are a chain of states that uses all machines and is as fast.
    int machines = 0;
    double slowest = 0;
    int before = -1;
    for (const StageCut& stage : plan->partition.workers) {
      CHECK(stage.first == before + 1);
      const State& state = plan->states.states[stage.last];
      StageLoad load{state.compute_seconds, state.parameter_bytes, 0, 0};
      if (before >= 0) {
        const std::vector<int>& inside = state.predecessors;
        CHECK(std::count(inside.begin(), inside.end(), before) == 1);
        load.compute_seconds -= plan->states.states[before].compute_seconds;
        load.weight_bytes -= plan->states.states[before].parameter_bytes;
      }
      slowest = std::max(slowest,
                         (*FindCostModel("public_code"))
                             ->StageSeconds(load, stage.replicas, level.link));
      machines += stage.replicas;
      before = stage.last;
    }
    CHECK(before + 1 == plan->states.size());
    CHECK(machines == level.components);
    CHECK(slowest == Approx(best).margin(1e-12));
  }
  CHECK(branching > 50);
}

TEST_CASE("public code: of several beginnings only the first is cut alone") {
  LayerGraph graph;
  AddLayer(&graph, {}, 1, 0);
  AddLayer(&graph, {}, 1, 0);
  AddLayer(&graph, {0, 1}, 1, 0);
  const auto plan = PublicCode(graph, On({{2, {1, 0}}}));
  REQUIRE(plan.ok());
  REQUIRE(plan->states.size() == 2);
  CHECK(plan->states.states[0].layers == std::vector<int>{0});
  CHECK(plan->states.states[1].layers == std::vector<int>{0, 1, 2});
  CHECK(MakeStates(graph, {}).size() == 4);
}

TEST_CASE("public code: machines may stay idle where that is asked for") {
  LayerGraph graph;
  AddLayer(&graph, {}, 2, 1000);
  AddLayer(&graph, {0}, 3, 1000);
  PublicCodeOptions options = On({{4, {1, 0}}});
  options.straight = true;
  CHECK(PublicCode(graph, options).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  options.use_fewer_machines = true;
  const auto plan = PublicCode(graph, options);
  REQUIRE(plan.ok());
  CHECK(plan->partition.seconds == 3);
  CHECK(Text(*plan) == "(0-1)x1 (1-2)x1 ");
}

TEST_CASE("public code: what it cannot plan is refused") {
  LayerGraph graph;
  CHECK(PublicCode(graph, On(kFour)).status().message() ==
        "public_code: the number of layers is 0, expected 1 or more");
  AddLayer(&graph, {}, 1, 1);
  AddLayer(&graph, {}, 1, 1);
  CHECK(PublicCode(graph, On(kFour)).status().message() ==
        "public_code: the number of layers that edges join is 1, expected 2, "
        "all of the graph; give each part a plan of its own");
  CHECK_FALSE(PublicCode(graph, On({})).ok());
  CHECK_FALSE(PublicCode(graph, On({{0, {1, 0}}})).ok());
  CHECK(PublicCode(graph, On({{2, {0, 0}}})).status().message() ==
        "public_code: the bandwidth of a level is 0 bytes per second, expected "
        "a number above 0");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(PublicCode(graph, On({{2, {nan, 0}}})).ok());
  PublicCodeOptions options = On(kFour);
  options.most_states = 20;
  const auto many = PublicCode(Published("vgg16"), options);
  CHECK(many.status().code() == absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace pipework
