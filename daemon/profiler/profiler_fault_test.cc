// What a cold start and a busy device do to a profile; needs failpoints.
#include <catch2/catch.hpp>

#include "daemon/base/failpoint.h"
#include "daemon/profiler/profiler.h"
#include "kernels/layers/graph_shape.h"
#include "kernels/models/registry.h"
#include "scheduler/planning/planning.h"

namespace pipework {
namespace {

v1::RunnerProfile Request() {
  v1::RunnerProfile request;
  request.mutable_spec()->set_seed(1);
  request.mutable_spec()->set_threads_per_executor(1);
  request.mutable_spec()->mutable_optimizer()->set_name("sgd");
  request.set_batch(8);
  ModelEnds ends;
  ends.sample = Shape{6};
  ends.classes = 10;
  auto graph = BuildModel("mlp", {}, ends);
  REQUIRE(graph.ok());
  *request.mutable_graph() = *std::move(graph);
  return request;
}

v1::Profile Run(const std::string& failpoints,
                const v1::RunnerProfile& request = Request()) {
  REQUIRE(SetFailpoints(failpoints).ok());
  ProfileOptions options;
  options.budget = absl::Milliseconds(20);
  auto profile = RunProfile(request, options);
  REQUIRE(SetFailpoints("").ok());
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  return *std::move(profile);
}

// One layer has nearly all the work: the best two stages are this layer and the
// others, however unquiet the machine is. Were all layers as slow as a cold
// start makes them, each stage would get half of them.
v1::RunnerProfile TopHeavy() {
  v1::RunnerProfile request = Request();
  ModelEnds ends;
  ends.sample = Shape{1024};
  ends.classes = 10;
  v1::Arg hidden;
  hidden.set_name("hidden");
  for (const int width : {512, 16, 16}) {
    hidden.mutable_ints_value()->add_values(width);
  }
  const v1::Arg* const args[] = {&hidden};
  auto graph = BuildModel("mlp", args, ends);
  REQUIRE(graph.ok());
  *request.mutable_graph() = *std::move(graph);
  return request;
}

// Names of the first stage's layers, of two on devices with fast links.
std::vector<std::string> FirstOfTwo(const v1::RunnerProfile& request,
                                    const v1::Profile& profile) {
  v1::JobSpec spec = request.spec();
  spec.mutable_batch()->set_minibatch(8);
  spec.mutable_pipeline()->set_schedule("1f1b");
  spec.mutable_pipeline()->set_stage_count(2);
  v1::Topology topology;
  topology.set_link_bytes_per_second(1e12);
  for (const char* name : {"n1", "n2"}) {
    v1::Topology::Node* node = topology.add_nodes();
    node->set_name(name);
    v1::Device* device = node->add_devices();
    device->set_name("cpu:0");
    device->set_usable(true);
    device->add_cores(0);
  }
  const auto plan = PlanJob(spec, request.graph(), profile, topology, {});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  REQUIRE(plan->stages_size() == 2);
  return {plan->stages(0).layers().begin(), plan->stages(0).layers().end()};
}

}  // namespace

// A layer of this network takes some microseconds; the sleep is over a hundred
// times as long, and longer than any wait for a core would be.
TEST_CASE("profiler: three slow iterations at the start change nothing") {
  const v1::Profile profile = Run("profiler.first_rounds=sleep(50)");
  for (const v1::LayerProfile& layer : profile.layers()) {
    CAPTURE(layer.name());
    CHECK(layer.forward_seconds() < 0.025);
    CHECK(layer.backward_seconds() < 0.025);
    CHECK(layer.rounds() >= 5);
  }
}

TEST_CASE(
    "profiler: five profiles, one from a cold start, lead to the same plan") {
  const v1::RunnerProfile request = TopHeavy();
  std::vector<std::vector<std::string>> firsts;
  for (int run = 0; run < 5; ++run) {
    firsts.push_back(FirstOfTwo(
        request,
        Run(run == 2 ? "profiler.first_rounds=sleep(50)" : "", request)));
    CAPTURE(run, firsts.back());
    CHECK(firsts.back() == firsts.front());
    CHECK(firsts.back().size() < 4);
  }
}

TEST_CASE(
    "profiler: a device that gives the thread its core for a part of the time "
    "makes the profile noisy") {
  CHECK(Run("profiler.layer=sleep(2)").noisy());
}

}  // namespace pipework
