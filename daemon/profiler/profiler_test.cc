#include "daemon/profiler/profiler.h"

#include <sched.h>

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/layers/graph_shape.h"
#include "kernels/models/registry.h"

namespace pipework {
namespace {

v1::RunnerProfile Request(const std::string& model, Shape sample,
                          int64_t batch) {
  v1::RunnerProfile request;
  request.mutable_spec()->set_seed(1);
  request.mutable_spec()->set_threads_per_executor(1);
  request.mutable_spec()->mutable_optimizer()->set_name("sgd");
  request.mutable_spec()->mutable_optimizer()->set_momentum(0.9);
  request.set_batch(batch);
  ModelEnds ends;
  ends.sample = sample;
  ends.classes = 10;
  auto graph = BuildModel(model, {}, ends);
  INFO(graph.status().ToString());
  REQUIRE(graph.ok());
  *request.mutable_graph() = *std::move(graph);
  return request;
}

ProfileOptions Quick() {
  ProfileOptions options;
  options.budget = absl::Milliseconds(50);
  return options;
}

}  // namespace

TEST_CASE("profiler: every layer is measured, with its bytes") {
  const v1::RunnerProfile request =
      Request("small_cnn", Shape{1, 8, 8}, /*batch=*/16);
  const auto profile = RunProfile(request, Quick());
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  const auto info = InferGraph(request.graph());
  REQUIRE(info.ok());
  CHECK(profile->graph_hash() == GraphHash(request.graph()));
  CHECK(profile->batch() == 16);
  CHECK(profile->device_kind().substr(0, 6) == "cpu x1");
  CHECK_FALSE(profile->estimated());
  CHECK(profile->input_bytes() == 16 * 64 * 4);
  CHECK(profile->label_bytes() == 16 * 4);
  CHECK(profile->action_seconds() > 0);
  CHECK(profile->name() == request.graph().name());
  CHECK(profile->measured_at() > 0);
  REQUIRE(profile->layers_size() == request.graph().layers_size());
  for (int i = 0; i < profile->layers_size(); ++i) {
    const v1::LayerProfile& layer = profile->layers(i);
    CAPTURE(layer.name());
    CHECK(layer.name() == request.graph().layers(i).name());
    CHECK(layer.rounds() >= 3);
    const std::string& type = request.graph().layers(i).type();
    CHECK(layer.description().substr(0, type.size() + 1) == type + "(");
    CHECK(layer.forward_seconds() > 0);
    CHECK(layer.backward_seconds() > 0);
    int64_t parameters = 0;
    for (const ParamSpec& param : info->layers[i].params) {
      parameters += param.shape.elements() * 4;
    }
    CHECK(layer.parameter_bytes() == parameters);
    CHECK((layer.update_seconds() > 0) == (parameters > 0));
    CHECK(layer.output_bytes() ==
          info->layers[i].output.shape.elements() * 4 * 16);
  }
}

TEST_CASE(
    "profiler: residual networks with skips are measured, and their wiring is "
    "in the profile") {
  const v1::RunnerProfile request = Request("resnet_small", Shape{1, 8, 8}, 4);
  const auto profile = RunProfile(request, Quick());
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  int64_t saved = 0;
  for (const v1::LayerProfile& layer : profile->layers()) {
    saved += layer.saved_bytes();
  }
  CHECK(saved > 0);
  // The layers that they read, by name: the graph can be built from it again.
  const auto info = InferGraph(request.graph());
  REQUIRE(info.ok());
  size_t skips = 0;
  for (int i = 0; i < profile->layers_size(); ++i) {
    const v1::LayerProfile& layer = profile->layers(i);
    REQUIRE(layer.inputs_size() == static_cast<int>(info->inputs[i].size()));
    for (int j = 0; j < layer.inputs_size(); ++j) {
      const int producer = info->inputs[i][j];
      CHECK(layer.inputs(j) == (producer == kInputX ? "x"
                                : producer == kInputY
                                    ? "y"
                                    : profile->layers(producer).name()));
      if (producer >= 0 && producer < i - 1) ++skips;
    }
  }
  CHECK(skips > 0);
}

TEST_CASE(
    "profiler: a chain of three hundred layers is measured in whole rounds") {
  v1::RunnerProfile request = Request("mlp", Shape{6}, 8);
  request.mutable_graph()->clear_layers();
  for (int i = 0; i < 299; ++i) {
    v1::Layer* layer = request.mutable_graph()->add_layers();
    layer->set_name(absl::StrCat("fc", i));
    layer->set_type("linear");
    v1::Arg* out = layer->add_args();
    out->set_name("out");
    out->set_int_value(8);
  }
  v1::Layer* loss = request.mutable_graph()->add_layers();
  loss->set_name("loss");
  loss->set_type("softmax_cross_entropy");
  ProfileOptions options = Quick();
  options.most_rounds = 40;
  const auto profile = RunProfile(request, options);
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  CHECK(profile->layers_size() == 300);
  for (const v1::LayerProfile& layer : profile->layers()) {
    CHECK(layer.rounds() == profile->layers(0).rounds());
  }
}

TEST_CASE("profiler: the thread may run on the same cores as before") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  v1::RunnerProfile request = Request("mlp", Shape{6}, 8);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &before)) continue;
    request.mutable_device()->add_cores(core);
    break;
  }
  REQUIRE(RunProfile(request, Quick()).ok());
  cpu_set_t after;
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("profiler: the kind of the device is the one that the node says") {
  v1::RunnerProfile request = Request("mlp", Shape{6}, 8);
  request.mutable_device()->set_kind("cpu x1 slow");
  const auto profile = RunProfile(request, Quick());
  REQUIRE(profile.ok());
  CHECK(profile->device_kind() == "cpu x1 slow");
}

TEST_CASE("profiler: a request that cannot work is refused") {
  v1::RunnerProfile request = Request("mlp", Shape{6}, 8);
  SECTION("no samples") {
    request.set_batch(0);
    CHECK(absl::IsInvalidArgument(RunProfile(request, Quick()).status()));
  }
  SECTION("a graph that is none") {
    request.mutable_graph()->mutable_layers(0)->set_type("warp");
    CHECK(absl::IsInvalidArgument(RunProfile(request, Quick()).status()));
  }
  SECTION("a device that is too small") {
    request.mutable_device()->set_memory_bytes(1000);
    CHECK(absl::IsResourceExhausted(RunProfile(request, Quick()).status()));
  }
}

}  // namespace pipework
