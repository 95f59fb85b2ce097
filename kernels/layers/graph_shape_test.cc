#include "kernels/layers/graph_shape.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "kernels/layers/args.h"

namespace pipework {
namespace {

v1::Graph Parse(const std::string& text) {
  v1::Graph graph;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &graph));
  return graph;
}

std::string ErrorOf(const v1::Graph& graph) {
  const auto info = InferGraph(graph);
  CHECK(info.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(info.status().message());
}

// A graph of 8x8 images with `layers` in front of a linear layer and the loss.
v1::Graph Digits(const std::string& layers) {
  return Parse("input_shape: 1 input_shape: 8 input_shape: 8 " + layers +
               " layers { name: 'flat' type: 'flatten' }"
               " layers { name: 'fc' type: 'linear' args { name: 'out' "
               "int_value: 10 } }"
               " layers { name: 'loss' type: 'softmax_cross_entropy' }");
}

std::string Layer(const std::string& name, const std::string& type,
                  const std::string& rest = "") {
  return " layers { name: '" + name + "' type: '" + type + "' " + rest + " }";
}

std::string Arg(const std::string& name, const std::string& value) {
  return " args { name: '" + name + "' " + value + " }";
}

TEST_CASE("infer graph: shapes, wiring and parameters of a small network") {
  const v1::Graph graph =
      Digits(Layer("conv", "conv2d",
                   Arg("out", "int_value: 4") + Arg("kernel", "int_value: 3")) +
             Layer("pool", "max_pool2d", Arg("kernel", "int_value: 2")));
  const auto info = InferGraph(graph);
  INFO(info.status());
  REQUIRE(info.ok());
  REQUIRE(info->layers.size() == 5);
  CHECK(info->x.shape == Shape({1, 8, 8}));
  CHECK(info->y.shape == Shape());
  CHECK(info->y.dtype == DType::kI32);
  CHECK(info->layers[0].output.shape == Shape({4, 6, 6}));
  CHECK(info->layers[1].output.shape == Shape({4, 3, 3}));
  CHECK(info->layers[2].output.shape == Shape({36}));
  CHECK(info->layers[3].output.shape == Shape({10}));
  CHECK(info->layers[4].is_loss);
  CHECK(info->inputs ==
        std::vector<std::vector<int>>{{kInputX}, {0}, {1}, {2}, {3, kInputY}});
  // 4 kernels of 3x3 and a bias each; 36 x 10 and 10.
  CHECK(info->parameters == 4 * 9 + 4 + 360 + 10);
  CHECK(info->layers[0].params[0].name == "weight");
  CHECK(info->layers[0].params[0].shape == Shape({4, 1, 3, 3}));
  CHECK(info->layers[0].params[0].bound == Approx(1.0 / 3.0));
  CHECK(info->layers[3].params[1].bound == Approx(1.0 / 6.0));
  // 36 pixels x 4 channels x (9 products, 9 sums), and the bias.
  CHECK(info->layers[0].forward_operations == 144 * 18 + 144);
}

TEST_CASE("infer graph: operations count a multiply and an add as two") {
  const v1::Graph graph = Parse(
      "input_shape: 20 layers { name: 'fc' type: 'linear' args { name: 'out' "
      "int_value: 30 } args { name: 'bias' bool_value: false } }"
      " layers { name: 'loss' type: 'softmax_cross_entropy' }");
  const auto info = InferGraph(graph);
  REQUIRE(info.ok());
  CHECK(info->layers[0].forward_operations == 2 * 20 * 30);
  CHECK(info->layers[0].backward_operations == 4 * 20 * 30);
  CHECK(info->layers[0].params.size() == 1);
}

TEST_CASE("infer graph: a skip connection and two branches") {
  const v1::Graph graph =
      Digits(Layer("a", "relu") + Layer("b", "relu", "inputs: 'x'") +
             Layer("sum", "add", "inputs: 'a' inputs: 'b' inputs: 'x'"));
  const auto info = InferGraph(graph);
  INFO(info.status());
  REQUIRE(info.ok());
  CHECK(info->inputs[2] == std::vector<int>{0, 1, kInputX});
}

TEST_CASE("infer graph: what is wrong with the graph is said in one line") {
  const std::string relu = Layer("a", "relu");
  const std::string loss = Layer("loss", "softmax_cross_entropy");
  struct Row {
    std::string graph;
    std::string message;
  };
  const std::vector<Row> rows = {
      {"", "graph: number of layers is 0, expected 1 or more"},
      {"input_shape: 0" + relu + loss,
       "graph: shape of a sample is [0], expected every side at least 1"},
      {"input_shape: -3" + relu + loss,
       "graph: shape of a sample is [-3], expected every side at least 1"},
      {"input_shape: 9223372036854775807 input_shape: 3" + relu + loss,
       "graph: shape of a sample is [9223372036854775807,3], expected at most "
       "8589934592 elements"},
      {"input_shape: 3" + Layer("", "relu") + loss,
       "graph: layer 0: name is empty, expected a name"},
      {"input_shape: 3" + Layer("a b", "relu") + loss,
       "graph: layer 0: name is \"a b\", expected letters, digits, '_', '.' "
       "and '-'"},
      {"input_shape: 3" + Layer("x", "relu") + loss,
       "graph: layer 0: name is \"x\", expected another one; x and y are the "
       "inputs of the graph"},
      {"input_shape: 3" + relu + relu + loss,
       "graph: layer 1: name is \"a\", expected one that layer 0 does not "
       "have"},
      {"input_shape: 3" + relu + Layer("b", "relu", "inputs: 'c'") + loss,
       "layer \"b\" (relu): an input is \"c\", expected x, y or the name of an "
       "earlier layer"},
      {"input_shape: 3" + Layer("a", "relu", "inputs: 'b'") +
           Layer("b", "relu") + loss,
       "layer \"a\" (relu): an input is \"b\", which is layer 1, expected a "
       "layer before 0; put layers after those that they read"},
      {"input_shape: 3" + Layer("a", "relu", "inputs: 'a'") + loss,
       "layer \"a\" (relu): an input is \"a\", which is layer 0, expected a "
       "layer before 0; put layers after those that they read"},
      {"input_shape: 3" + relu + Layer("b", "add", "inputs: 'a' inputs: 'a'") +
           loss,
       "layer \"b\" (add): an input is \"a\" twice, expected each input once"},
      {"input_shape: 3" + relu + Layer("b", "relu", "inputs: 'x'") + loss,
       "layer \"a\" (relu): no layer reads its output; remove it, or name it "
       "as an input"},
      {"input_shape: 3" + relu,
       "layer \"a\" (relu): type of the last layer is relu, expected a loss; "
       "end with softmax_cross_entropy"},
      {"input_shape: 3" + loss + Layer("b", "relu") + Layer("l2", "mse"),
       "layer \"loss\" (softmax_cross_entropy): place of the loss is layer 0, "
       "expected the last layer, 2; a graph has one loss, at its end"},
      {"input_shape: 3" + Layer("a", "reluu") + loss,
       "layer \"a\" (reluu): type is not known, expected one of linear, "
       "conv2d, max_pool2d, avg_pool2d, global_avg_pool2d, relu, batch_norm, "
       "dropout, flatten, add, softmax_cross_entropy, mse; did you mean relu?"},
      {"input_shape: 3" + Layer("a", "relu", "inputs: 'y'") + loss,
       "layer \"a\" (relu): type of its input is i32, expected f32; labels go "
       "to the loss only"},
      {"input_shape: 3 label_shape: 2" + loss,
       "layer \"loss\" (softmax_cross_entropy): shape of a label is [2], "
       "expected [] for logits [3]"},
      {"input_shape: 3" + Layer("loss", "mse"),
       "layer \"loss\" (mse): shape of a label is [], expected as many "
       "elements as its prediction [3]"},
      {"input_shape: 3" + Layer("optimizer.exp_avg", "relu") + loss,
       "graph: layer 0: name is \"optimizer.exp_avg\", expected one that does "
       "not begin with \"optimizer.\""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.graph);
    CHECK(ErrorOf(Parse(row.graph)) == row.message);
  }
}

TEST_CASE("infer layer: arguments are checked by name, type and range") {
  struct Row {
    std::string layer;
    std::string message;
  };
  const std::string conv = "name: 'c' type: 'conv2d' ";
  const std::string out = Arg("out", "int_value: 4");
  const std::string kernel = Arg("kernel", "int_value: 3");
  const std::vector<Row> rows = {
      {conv + out,
       "kernel is missing, expected one whole number or two "
       "[height,width]; give args: {kernel: ...}"},
      {conv + kernel,
       "out is missing, expected a whole number, at least 1; "
       "give args: {out: ...}"},
      {conv + out + kernel + Arg("kernal", "int_value: 3"),
       "argument \"kernal\" is not known, expected one of out, kernel, stride, "
       "padding, dilation, groups, bias; did you mean kernel?"},
      {conv + out + kernel + out,
       "out is given twice, expected one value; remove one of them"},
      {conv + Arg("out", "int_value: 0") + kernel,
       "out is 0, expected a whole number, at least 1"},
      {conv + Arg("out", "text_value: 'many'") + kernel,
       "out is \"many\", expected a whole number, at least 1"},
      {conv + Arg("out", "real_value: 2.5") + kernel,
       "out is 2.5, expected a whole number, at least 1"},
      {conv + out +
           Arg("kernel",
               "ints_value { values: 1 values: 2 values: 3 "
               "}"),
       "kernel is [1,2,3], expected one whole number or two [height,width]"},
      {conv + out + kernel + Arg("bias", "int_value: 1"),
       "bias is 1, expected true or false"},
      {conv + out + kernel + Arg("stride", "int_value: 0"),
       "stride is 0, expected a whole number, at least 1"},
      {conv + out + kernel + Arg("padding", "int_value: -1"),
       "padding is -1, expected a whole number, at least 0"},
      {conv + out + kernel + Arg("groups", "int_value: 3"),
       "groups is 3, expected a divisor of 2 channels of its input and 4 of "
       "its output"},
      {conv + out + Arg("kernel", "int_value: 9"),
       "kernel height is 9, expected at most 8, the height of its padded "
       "input; use a smaller kernel or more padding"},
      {conv + out + kernel +
           Arg("dilation",
               "ints_value { values: 1 values: "
               "4 }"),
       "kernel width with its dilation is 9, expected at most 6, the width of "
       "its padded input; use a smaller kernel or more padding"},
      {conv + Arg("out", "int_value: 2147483648") +
           Arg("kernel", "int_value: 1"),
       "shape of its output is [2147483648,8,6], expected at most 8589934592 "
       "elements"},
      {conv + Arg("out", "int_value: 9223372036854775807") + kernel,
       "out is 9223372036854775807, expected a whole number from 1 to "
       "2147483648"},
      {"name: 'c' type: 'max_pool2d' " + Arg("kernel", "int_value: 2") +
           Arg("padding", "int_value: 2"),
       "padding is [2,2], expected at most half the kernel [2,2]"},
      {"name: 'c' type: 'dropout' " + Arg("p", "real_value: 1"),
       "p is 1, expected a number from 0 to below 1"},
      {"name: 'c' type: 'dropout' " + Arg("p", "real_value: nan"),
       "p is nan, expected a number from 0 to below 1"},
      {"name: 'c' type: 'batch_norm' " + Arg("eps", "int_value: 0"),
       "eps is 0, expected a number from 1e-12 to below 1"},
      {"name: 'c' type: 'relu' " + Arg("p", "int_value: 0"),
       "argument \"p\" is not known, expected no arguments"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.layer);
    v1::Layer layer;
    REQUIRE(google::protobuf::TextFormat::ParseFromString(row.layer, &layer));
    const TensorSpec input{Shape({2, 8, 6}), DType::kF32};
    const auto info = InferLayer(layer, {input});
    CHECK(info.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(info.status().message()) ==
          absl::StrCat("layer \"c\" (", layer.type(), "): ", row.message));
  }
}

TEST_CASE("infer layer: inputs are checked by number and shape") {
  const auto infer = [](const std::string& type,
                        const std::vector<TensorSpec>& inputs) {
    v1::Layer layer;
    layer.set_name("a");
    layer.set_type(type);
    return std::string(InferLayer(layer, inputs).status().message());
  };
  const TensorSpec three{Shape({3}), DType::kF32};
  const TensorSpec four{Shape({4}), DType::kF32};
  CHECK(infer("relu", {three, three}) ==
        "layer \"a\" (relu): number of inputs is 2, expected 1");
  CHECK(infer("add", {three}) ==
        "layer \"a\" (add): number of inputs is 1, expected 2 or more; give "
        "inputs: [A, B]");
  CHECK(infer("add", {three, four}) ==
        "layer \"a\" (add): shape of input 1 is [4], expected [3], the shape "
        "of input 0");
  CHECK(infer("batch_norm", {{Shape({2, 3}), DType::kF32}}) ==
        "layer \"a\" (batch_norm): shape of its input is [2,3], expected "
        "[features] or [channels,height,width]");
  CHECK(infer("softmax_cross_entropy", {three, three}) ==
        "layer \"a\" (softmax_cross_entropy): type of its labels is f32, "
        "expected i32; its second input is y");
}

TEST_CASE("infer graph: 100,000 layers are inferred, one more is refused") {
  v1::Graph graph;
  graph.add_input_shape(4);
  for (int i = 0; i < 99999; ++i) {
    v1::Layer* layer = graph.add_layers();
    layer->set_name(absl::StrCat("r", i));
    layer->set_type("relu");
  }
  v1::Layer* loss = graph.add_layers();
  loss->set_name("loss");
  loss->set_type("softmax_cross_entropy");
  CHECK(InferGraph(graph).ok());

  v1::Graph longer = graph;
  longer.mutable_layers(99999)->set_name("r99999");
  longer.mutable_layers(99999)->set_type("relu");
  *longer.add_layers() = graph.layers(99999);
  CHECK(ErrorOf(longer) ==
        "graph: number of layers is 100001, expected at most 100000");
}

TEST_CASE("infer graph: more parameters than 64 bits of bytes are refused") {
  v1::Graph graph;
  graph.add_input_shape(65536);
  // 2^32 parameters each: the sum passes 2^50 at layer 2^18.
  for (int i = 0; i < 99999; ++i) {
    v1::Layer* layer = graph.add_layers();
    layer->set_name(absl::StrCat("fc", i));
    layer->set_type("linear");
    v1::Arg* out = layer->add_args();
    out->set_name("out");
    out->set_int_value(131072);
  }
  // 2^34 elements are over the limit of one tensor.
  CHECK(ErrorOf(graph) ==
        "layer \"fc1\" (linear): shape of weight is [131072,131072], expected "
        "at most 8589934592 elements");
  for (v1::Layer& layer : *graph.mutable_layers()) {
    layer.mutable_args(0)->set_int_value(65536);
  }
  *graph.add_layers() = Parse(Layer("loss", "softmax_cross_entropy")).layers(0);
  const auto info = InferGraph(graph);
  REQUIRE(info.ok());
  CHECK(info->parameters == int64_t{99999} * (int64_t{65536} * 65536 + 65536));
}

TEST_CASE("graph hash: changes with every part that matters, and no other") {
  const v1::Graph graph =
      Digits(Layer("conv", "conv2d",
                   Arg("out", "int_value: 4") + Arg("kernel", "int_value: 3")));
  const std::string hash = GraphHash(graph);
  CHECK(hash.size() == 16);
  CHECK(hash.find_first_not_of("0123456789abcdef") == std::string::npos);

  std::vector<v1::Graph> others(8, graph);
  others[0].mutable_layers(0)->set_name("conv1");
  others[1].mutable_layers(1)->set_type("relu");
  others[2].mutable_layers(0)->mutable_args(0)->set_int_value(5);
  others[3].mutable_layers(0)->mutable_args(0)->set_real_value(4);
  others[4].set_input_shape(0, 2);
  others[5].add_label_shape(3);
  others[6].mutable_layers(1)->add_inputs("x");
  others[7].mutable_layers()->RemoveLast();
  for (const v1::Graph& other : others) {
    CAPTURE(other.ShortDebugString());
    CHECK(GraphHash(other) != hash);
  }

  v1::Graph same = graph;
  same.set_name("another name");
  same.mutable_layers(0)->mutable_args()->SwapElements(0, 1);
  same.mutable_layers(0)->add_inputs("x");
  same.mutable_layers(1)->add_inputs("conv");
  same.mutable_layers(3)->add_inputs("fc");
  same.mutable_layers(3)->add_inputs("y");
  CHECK(GraphHash(same) == hash);
}

TEST_CASE("nearest name: a near one is found, a far one is not") {
  const std::vector<absl::string_view> known = {"linear", "conv2d", "relu"};
  CHECK(NearestName("liner", known) == "linear");
  CHECK(NearestName("conv", known) == "conv2d");
  CHECK(NearestName("transformer", known).empty());
  CHECK(NearestName(std::string(1000, 'a'), known).empty());
}

}  // namespace
}  // namespace pipework
