// What a cold start and a busy device do to a profile; needs failpoints.
#include <catch2/catch.hpp>

#include "daemon/base/failpoint.h"
#include "daemon/profiler/profiler.h"
#include "kernels/layers/graph_shape.h"
#include "kernels/models/registry.h"

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

v1::Profile Run(const std::string& failpoints) {
  REQUIRE(SetFailpoints(failpoints).ok());
  ProfileOptions options;
  options.budget = absl::Milliseconds(20);
  auto profile = RunProfile(Request(), options);
  REQUIRE(SetFailpoints("").ok());
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  return *std::move(profile);
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
    "profiler: a device that gives the thread its core for a part of the time "
    "makes the profile noisy") {
  CHECK(Run("profiler.layer=sleep(2)").noisy());
}

}  // namespace pipework
