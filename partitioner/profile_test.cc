#include "partitioner/profile.h"

#include <catch2/catch.hpp>
#include <limits>

namespace pipework {
namespace {

struct Network {
  v1::Graph graph;
  v1::Profile profile;

  void Add(const std::string& name, std::vector<std::string> inputs,
           int64_t output_bytes) {
    v1::Layer* layer = graph.add_layers();
    layer->set_name(name);
    for (const std::string& input : inputs) layer->add_inputs(input);
    v1::LayerProfile* costs = profile.add_layers();
    costs->set_name(name);
    costs->set_output_bytes(output_bytes);
    costs->set_forward_seconds(1);
    costs->set_backward_seconds(2);
    costs->set_update_seconds(0.5);
    costs->set_parameter_bytes(12);
    costs->set_saved_bytes(7);
  }
};

// A residual network of 2 samples a unit: x of 100 bytes, y of 4 bytes each.
Network Residual() {
  Network network;
  network.Add("a", {}, 10);
  network.Add("b", {}, 20);
  network.Add("c", {}, 30);
  network.Add("add", {"c", "a"}, 40);
  network.Add("loss", {}, 1);
  network.profile.set_batch(2);
  network.profile.set_input_bytes(104);
  network.profile.set_label_bytes(8);
  return network;
}

TEST_CASE("profile: a cut counts every tensor that is alive across it once") {
  const Network network = Residual();
  const auto chain = MakeChain(network.graph, network.profile, 1);
  REQUIRE(chain.ok());
  // a; b and a; c and a; add. The label goes from stage 0 to the loss.
  CHECK(chain->gradient_bytes == std::vector<int64_t>{10, 30, 40, 40, 0});
  CHECK(chain->cut_bytes == std::vector<int64_t>{18, 38, 48, 48, 0});
  CHECK(chain->x_bytes == 200);
  CHECK(chain->y_bytes == 8);
}

TEST_CASE("profile: a layer that reads the sample again carries it along") {
  Network network;
  network.Add("a", {"x"}, 10);
  network.Add("b", {"a"}, 10);
  network.Add("join", {"b", "x"}, 10);
  network.Add("loss", {"join", "y"}, 1);
  network.profile.set_batch(1);
  network.profile.set_input_bytes(104);
  network.profile.set_label_bytes(4);
  const auto chain = MakeChain(network.graph, network.profile, 1);
  REQUIRE(chain.ok());
  CHECK(chain->cut_bytes == std::vector<int64_t>{114, 114, 14, 0});
}

TEST_CASE("profile: samples scale time and bytes, not weights and updates") {
  const Network network = Residual();
  const auto chain = MakeChain(network.graph, network.profile, 0.5);
  REQUIRE(chain.ok());
  CHECK(chain->layers[1].forward_seconds == 0.5);
  CHECK(chain->layers[1].backward_seconds == 1);
  CHECK(chain->layers[1].update_seconds == 0.5);
  CHECK(chain->layers[1].parameter_bytes == 12);
  CHECK(chain->layers[1].output_bytes == 10);
  CHECK(chain->cut_bytes[0] == 9);
}

TEST_CASE(
    "profile: one of another graph, or with impossible numbers, is refused") {
  Network network = Residual();
  network.profile.mutable_layers(2)->set_name("z");
  CHECK(MakeChain(network.graph, network.profile, 1).status().message() ==
        "profile: the name of a layer is \"z\", expected \"c\"; profile the "
        "graph again");
  network = Residual();
  network.profile.mutable_layers()->RemoveLast();
  CHECK_FALSE(MakeChain(network.graph, network.profile, 1).ok());
  for (const double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    network = Residual();
    network.profile.mutable_layers(0)->set_backward_seconds(wrong);
    CHECK_FALSE(MakeChain(network.graph, network.profile, 1).ok());
  }
  CHECK_FALSE(MakeChain({}, {}, 1).ok());
}

TEST_CASE("profile: names that a terminal would act on are refused") {
  Network network = Residual();
  network.profile.mutable_layers(1)->set_name("b\033[31m");
  CHECK(CheckProfile(network.profile).message() ==
        "profile: the name of a layer is \"b\\x1b[31m\", expected printable "
        "ASCII; rename it");
  network.profile.mutable_layers(1)->set_name("\xff");
  CHECK_FALSE(CheckProfile(network.profile).ok());
  network = Residual();
  network.profile.mutable_layers(1)->set_description("a\nb");
  CHECK_FALSE(CheckProfile(network.profile).ok());
  network = Residual();
  network.profile.set_name("two\nlines");
  CHECK_FALSE(CheckProfile(network.profile).ok());
  network = Residual();
  network.profile.set_device_kind("\x7f");
  CHECK_FALSE(CheckProfile(network.profile).ok());
  network.profile.set_device_kind("Titan X");
  CHECK(CheckProfile(network.profile).ok());
}

}  // namespace
}  // namespace pipework
