#include "partitioner/graph_text.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "partitioner/profile.h"

namespace pipework {
namespace {

std::string FileText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string NodeLine(const std::string& id, const std::string& description,
                     const std::string& forward = "1.0",
                     const std::string& activation = "64.0") {
  return absl::StrCat(
      id, " -- ", description, " -- forward_compute_time=", forward,
      ", backward_compute_time=2.0, activation_size=", activation,
      ", parameter_size=128.000\n");
}

std::string Message(const std::string& text) {
  const auto profile = ParseGraphText(text, "graph.txt");
  REQUIRE_FALSE(profile.ok());
  CHECK(profile.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(profile.status().message());
}

TEST_CASE("graph text: the published profiles are read whole") {
  struct Known {
    const char* name;
    int layers;
    double seconds;
  };
  for (const Known& known :
       {Known{"alexnet", 22, 0.085321}, Known{"gnmt", 37, 0.089416},
        Known{"resnet18", 70, 0.259742}, Known{"resnet50", 176, 0.443419},
        Known{"resnext50", 176, 0.590793}, Known{"squeezenet1_0", 67, 0.285366},
        Known{"vgg16", 40, 0.672535}}) {
    CAPTURE(known.name);
    const auto profile = ParseGraphText(
        FileText(absl::StrCat("testdata/profiles/", known.name, "/graph.txt")),
        "graph.txt");
    REQUIRE(profile.ok());
    double seconds = 0;
    for (const v1::LayerProfile& layer : profile->layers()) {
      seconds += layer.forward_seconds() + layer.backward_seconds();
    }
    CHECK(profile->layers_size() == known.layers);
    CHECK(seconds == Approx(known.seconds).epsilon(1e-12));
    const auto graph = GraphOfProfile(*profile);
    REQUIRE(graph.ok());
    CHECK(graph->layers(0).type() == "profiled");
    CHECK(MakeChain(*graph, *profile, 1).ok());

    // As a text proto it is the same profile.
    std::string text;
    REQUIRE(google::protobuf::TextFormat::PrintToString(*profile, &text));
    const auto again = ParseProfile(text, "profile");
    REQUIRE(again.ok());
    CHECK(again->DebugString() == profile->DebugString());
  }
}

TEST_CASE(
    "graph text: inputs become x, unused parts of a tuple are dropped, lists "
    "are summed") {
  const auto profile = ParseProfile(
      FileText("testdata/fuzz/graph_text/branches.txt"), "graph.txt");
  REQUIRE(profile.ok());
  REQUIRE(profile->layers_size() == 3);
  CHECK(profile->input_bytes() == 64);
  const v1::LayerProfile& linear = profile->layers(0);
  CHECK(linear.name() == "node2");
  CHECK(linear.description() == "Linear(8, 4)");
  CHECK(linear.forward_seconds() == 0.0015);
  CHECK(linear.backward_seconds() == 0.002);
  CHECK(linear.output_bytes() == 40);
  CHECK(linear.parameter_bytes() == 128);
  REQUIRE(linear.inputs_size() == 1);
  CHECK(linear.inputs(0) == "x");
  CHECK(profile->layers(1).name() == "node4");
  REQUIRE(profile->layers(2).inputs_size() == 2);
  CHECK(profile->layers(2).inputs(0) == "node2");
  CHECK(profile->layers(2).inputs(1) == "node4");

  const auto chain = MakeChain(*GraphOfProfile(*profile), *profile, 1);
  REQUIRE(chain.ok());
  CHECK(chain->cut_bytes == std::vector<int64_t>{40, 72, 0});
}

TEST_CASE("graph text: the order of lines does not matter") {
  const std::string a = NodeLine("node2", "A");
  const std::string b = NodeLine("node10", "B");
  const std::string c = NodeLine("node9", "C");
  const std::string d = NodeLine("node11", "D -- E");
  const std::string edges =
      "\tnode2 -- node9\n\tnode2 -- node10\n\tnode9 -- node11\n"
      "\tnode10 -- node11\n\tnode10 -- node11\r\n";
  const auto one = ParseGraphText(a + b + c + d + edges, "graph.txt");
  const auto two = ParseGraphText("\n" + edges + d + c + b + a, "graph.txt");
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  CHECK(one->DebugString() == two->DebugString());
  CHECK(one->layers(1).name() == "node9");
  CHECK(one->layers(2).name() == "node10");
  CHECK(one->layers(3).inputs_size() == 2);
  CHECK(one->layers(3).description() == "D -- E");
}

TEST_CASE("graph text: what is wrong is said in one line, with its place") {
  const std::string two = NodeLine("a", "A") + NodeLine("b", "B");
  CHECK(Message(two + "\ta -- b\n\tb -- a\n") ==
        "graph.txt:1: the graph is cyclic through \"a\", expected one without "
        "a cycle; remove one of the cycle's edges");
  CHECK(Message(two + "\ta -- c\n") ==
        "graph.txt:3: an edge's node is \"c\", expected the name of a node of "
        "this file; add its line, or remove the edge");
  CHECK(Message(NodeLine("a", "A", "-1")) ==
        "graph.txt:1: forward_compute_time is \"-1\", expected a number from 0 "
        "to 1e+12; correct it, or profile the graph again");
  for (const char* wrong : {"nan", "inf", "1e99", "", "two"}) {
    CHECK(Message(NodeLine("a", "A", wrong)).find("graph.txt:1: forward") == 0);
    CHECK(Message(NodeLine("a", "A", "1", absl::StrCat("[1; ", wrong, "]")))
              .find("graph.txt:1: activation_size") == 0);
  }
  CHECK(Message(NodeLine("a", "A", "1", "[1; 2")) ==
        "graph.txt:1: activation_size is \"1; 2\", expected a list that ends "
        "in ]; the file may be truncated: fetch it again");
  CHECK(Message(two + "\ta -- b\n" + NodeLine("b", "C")) ==
        "graph.txt:4: a node is \"b\" again, expected one of that name, as in "
        "line 2; remove or rename one of them");
  CHECK(Message("") ==
        "graph.txt:1: the number of nodes is 0, expected 1 or more; the file "
        "may be truncated: fetch it again");
  CHECK(Message(two + "\ta -- b\n\ta -- ").find("graph.txt:4: an edge is") ==
        0);
  CHECK(Message(two).find("graph.txt:1: the number of edges of \"a\" is 0") ==
        0);
  CHECK(Message(two + NodeLine("c", "C") + NodeLine("d", "D") +
                "\ta -- b\n\tc -- d\n") ==
        "graph.txt:3: the graph is in pieces: nothing joins \"c\" and \"a\", "
        "expected one in one piece; the file may be truncated: fetch it again");
  CHECK(Message(std::string(kMostGraphTextBytes + 1, 'a'))
            .find("graph.txt: its size is 10485761 bytes") == 0);
  CHECK(Message(std::string(kMostGraphTextBytes, '\1')).size() < 500);
}

TEST_CASE("graph text: no cut of a file is read as the whole") {
  const std::string text = FileText("testdata/profiles/alexnet/graph.txt");
  const auto whole = ParseGraphText(text, "graph.txt");
  REQUIRE(whole.ok());
  int refused = 0;
  for (size_t size = 0; size < text.find("\n\t"); size += 7) {
    const auto part = ParseGraphText(text.substr(0, size), "graph.txt");
    if (size > text.find('\n') + 30) CHECK_FALSE(part.ok());
    if (!part.ok()) {
      ++refused;
      CHECK(part.status().message().find('\n') == absl::string_view::npos);
    }
  }
  CHECK(refused > 300);
  // A chain: its edges, too, are all needed.
  const size_t last = text.find_last_of('\n');
  for (size_t size = text.find("\n\t"); size <= last; ++size) {
    CAPTURE(size);
    CHECK_FALSE(ParseGraphText(text.substr(0, size), "graph.txt").ok());
  }
}

TEST_CASE("graph text: a text proto with impossible contents is refused") {
  const auto message = [](absl::string_view text) {
    return std::string(ParseProfile(text, "p.txt").status().message());
  };
  CHECK(message("layers { name: \"a\" forward_seconds: nan }") ==
        "p.txt: profile: forward_seconds of layer \"a\" is nan, expected a "
        "number from 0 to 1e+09; profile the graph again");
  CHECK(message("layers { name: \"a\" output_bytes: -2 }")
            .find("output_bytes "
                  "of layer") != std::string::npos);
  CHECK(message("layers { name: \"a\" } layers { name: \"a\" }") ==
        "p.txt: profile: the name of a layer is \"a\" twice, expected one "
        "layer of that name; rename one of them");
  CHECK(message("layers { name: \"a\" inputs: \"b\" } layers { name: \"b\" "
                "inputs: \"a\" }") ==
        "p.txt: profile: an input of layer \"a\" is \"b\", which does not come "
        "before it, expected x, y or an earlier layer; list layers after all "
        "that they read; a cycle cannot be planned");
  CHECK(message("layers { name: \"a\" inputs: \"q\" }") ==
        "p.txt: profile: an input of layer \"a\" is \"q\", which is no layer, "
        "expected x, y or an earlier layer; correct the name");
  CHECK(message("layers { name: \"x\" }").find("not empty, x or y") !=
        std::string::npos);
  CHECK(message("layers {").find("p.txt:1:") == 0);
  CHECK(message("").find("p.txt: profile: its number of layers is 0") == 0);
}

TEST_CASE("graph text: a profile without inputs is a chain with a loss") {
  const auto profile = ParseProfile(
      "layers { name: \"a\" } layers { name: \"b\" } layers { name: \"c\" }",
      "p.txt");
  REQUIRE(profile.ok());
  const auto graph = GraphOfProfile(*profile);
  REQUIRE(graph.ok());
  CHECK(graph->layers(0).inputs(0) == "x");
  CHECK(graph->layers(1).inputs(0) == "a");
  CHECK(graph->layers(2).inputs(0) == "b");
  CHECK(graph->layers(2).inputs(1) == "y");
}

}  // namespace
}  // namespace pipework
