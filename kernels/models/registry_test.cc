#include "kernels/models/registry.h"

#include <catch2/catch.hpp>

#include "google/protobuf/text_format.h"
#include "kernels/layers/graph_shape.h"

namespace pipework {
namespace {

// Arguments from text: "args { name: 'width' int_value: 8 }".
v1::Layer Args(const std::string& text) {
  v1::Layer layer;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &layer));
  return layer;
}

absl::StatusOr<v1::Graph> Build(const std::string& name, const ModelEnds& ends,
                                const std::string& args = "") {
  const v1::Layer layer = Args(args);
  return BuildModel(
      name, {layer.args().data(), static_cast<size_t>(layer.args_size())},
      ends);
}

GraphInfo Infer(const std::string& name, const ModelEnds& ends,
                const std::string& args = "") {
  const auto graph = Build(name, ends, args);
  INFO(graph.status());
  REQUIRE(graph.ok());
  const auto info = InferGraph(*graph);
  INFO(info.status());
  REQUIRE(info.ok());
  return *info;
}

int64_t Buffers(const GraphInfo& info) {
  int64_t elements = 0;
  for (const LayerInfo& layer : info.layers) {
    for (const ParamSpec& buffer : layer.buffers) {
      elements += buffer.shape.elements();
    }
  }
  return elements;
}

const ModelEnds kDigits = {Shape({1, 8, 8}), Shape(), 10};
const ModelEnds kMnist = {Shape({28, 28}), Shape(), 10};
const ModelEnds kCifar = {Shape({3, 32, 32}), Shape(), 10};
const ModelEnds kScalar = {Shape({1}), Shape(), 2};

TEST_CASE("lenet5 has the 61,706 parameters of its published form") {
  // 156 + 2,416 + 48,120 + 10,164 + 850.
  CHECK(Infer("lenet5", kMnist).parameters == 61706);
  CHECK(Infer("lenet5", {Shape({1, 28, 28}), Shape(), 10}).parameters == 61706);
}

TEST_CASE("resnet_small with three groups of three blocks is ResNet-20") {
  // 269,722 with parameter-free skips, and 2,752 in the two projections.
  const std::string args =
      "args { name: 'widths' ints_value { values: 16 values: 32 values: 64 } }"
      "args { name: 'blocks' int_value: 3 }";
  const GraphInfo info = Infer("resnet_small", kCifar, args);
  CHECK(info.parameters == 272474);
  // Mean and variance of every channel that is normalised: 16 in conv1 and six
  // more layers, 32 and 64 in six layers and a projection each.
  CHECK(Buffers(info) == 2 * (16 * 7 + 32 * 7 + 64 * 7));
}

TEST_CASE("small_cnn: parameters and shapes on 8x8 digits") {
  const GraphInfo info = Infer("small_cnn", kDigits);
  // conv1 160, conv2 2,320, conv3 9,280, fc1 32,896, fc2 1,290.
  CHECK(info.parameters == 160 + 2320 + 9280 + 32896 + 1290);
  CHECK(info.layers[4].output.shape == Shape({16, 4, 4}));
  CHECK(info.layers[7].output.shape == Shape({64, 2, 2}));
  CHECK(Buffers(info) == 0);

  const GraphInfo narrow = Infer("small_cnn", kDigits,
                                 "args { name: 'width' int_value: 2 }"
                                 "args { name: 'batch_norm' bool_value: true }"
                                 "args { name: 'dropout' real_value: 0.5 }");
  // conv1 20, conv2 38, conv3 152, fc1 528, fc2 170; 2 + 2 + 8 channels.
  CHECK(narrow.parameters == 20 + 38 + 152 + 528 + 170 + 2 * 12);
  CHECK(Buffers(narrow) == 2 * 12);
  CHECK(narrow.layers.size() == info.layers.size() + 4);
}

TEST_CASE("mlp: hidden layers as asked") {
  // 64 pixels: 64 x 64 + 64 twice, and 650.
  CHECK(Infer("mlp", kDigits).parameters == 4160 + 4160 + 650);
  CHECK(Infer("mlp", kDigits, "args { name: 'hidden' ints_value { } }")
            .parameters == 650);
  CHECK(Infer("mlp", kDigits, "args { name: 'hidden' int_value: 3 }")
            .parameters == 64 * 3 + 3 + 30 + 10);
  const GraphInfo info = Infer("mlp", kDigits,
                               "args { name: 'hidden' ints_value { values: 5 "
                               "values: 6 } } args { name: 'dropout' "
                               "real_value: 0.1 }");
  CHECK(info.parameters == 65 * 5 + 6 * 6 + 7 * 10);
  CHECK(info.layers.size() == 1 + 3 + 3 + 1 + 1);
}

TEST_CASE("linear_chain: one scalar a layer") {
  const GraphInfo info = Infer("linear_chain", kScalar);
  CHECK(info.parameters == 3);
  CHECK(info.layers.size() == 4);
}

TEST_CASE("every model builds, with its name, and can be cut anywhere") {
  CHECK(ModelTypes().size() == 5);
  for (const ModelType& type : ModelTypes()) {
    CAPTURE(std::string(type.name));
    const bool is_chain = type.name == "linear_chain";
    const bool is_lenet = type.name == "lenet5";
    const auto graph =
        Build(std::string(type.name),
              is_chain ? kScalar : (is_lenet ? kMnist : kDigits));
    INFO(graph.status());
    REQUIRE(graph.ok());
    CHECK(graph->name() == type.name);
    CHECK(InferGraph(*graph).ok());
  }
}

TEST_CASE("models: what does not fit is said in one line") {
  const auto error = [](const std::string& name, const ModelEnds& ends,
                        const std::string& args = "") {
    const auto graph = Build(name, ends, args);
    CHECK(graph.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(graph.status().message());
  };
  CHECK(error("lenet", kMnist) ==
        "model: name is \"lenet\", expected one of small_cnn, mlp, lenet5, "
        "resnet_small, linear_chain; did you mean lenet5?");
  CHECK(error("small_cnn", kDigits, "args { name: 'widht' int_value: 8 }") ==
        "model small_cnn: argument \"widht\" is not known, expected one of "
        "width, batch_norm, dropout; did you mean width?");
  CHECK(error("small_cnn", kDigits, "args { name: 'width' int_value: 0 }") ==
        "model small_cnn: width is 0, expected a whole number from 1 to 4096");
  CHECK(error("small_cnn", {Shape({64}), Shape(), 10}) ==
        "model small_cnn: shape of a sample is [64], expected [height,width] "
        "or [channels,height,width] of at least 4x4");
  CHECK(error("lenet5", {Shape({8, 8}), Shape(), 10}) ==
        "model lenet5: shape of a sample is [8,8], expected [height,width] or "
        "[channels,height,width] of at least 12x12");
  CHECK(error("mlp", {Shape({8}), Shape({8}), 10}) ==
        "model mlp: shape of a label is [8], expected [], one class number a "
        "sample; give the layers of the network instead");
  CHECK(error("mlp", {Shape({8}), Shape(), 1}) ==
        "model mlp: number of classes is 1, expected 2 or more");
  CHECK(error("linear_chain", kDigits) ==
        "model linear_chain: shape of a sample is [1,8,8], expected [1]");
  CHECK(error("resnet_small", kDigits,
              "args { name: 'widths' ints_value { } }") ==
        "model resnet_small: widths is [], expected at least one number");
}

TEST_CASE("models: sizes that overflow are refused, not built") {
  const auto graph = Build("mlp", {Shape({65536, 1024}), Shape(), 10},
                           "args { name: 'hidden' int_value: 1048576 }");
  CHECK(graph.status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pipework
