#include "scheduler/layer_order.h"

#include <catch2/catch.hpp>

#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

// x -> a -> (b, c) -> d -> loss
v1::Graph Diamond() {
  v1::Graph graph;
  graph.set_name("diamond");
  for (const char* name : {"a", "b", "c", "d", "loss"}) {
    graph.add_layers()->set_name(name);
  }
  graph.mutable_layers(2)->add_inputs("a");
  graph.mutable_layers(3)->add_inputs("b");
  graph.mutable_layers(3)->add_inputs("c");
  return graph;
}

v1::Plan OrderedAs(const std::vector<std::string>& names) {
  v1::Plan plan;
  for (const std::string& name : names) plan.add_layer_order(name);
  return plan;
}

std::string Text(const v1::Graph& graph) {
  std::string text;
  for (const v1::Layer& layer : graph.layers()) {
    text += text.empty() ? "" : " ";
    text += layer.name() + "(";
    for (const std::string& input : layer.inputs()) {
      text += (&input == &layer.inputs(0) ? "" : ",") + input;
    }
    text += ")";
  }
  return text;
}

TEST_CASE("layer order: a plan without one leaves the graph as it is") {
  const auto graph = ReorderGraph(Diamond(), v1::Plan());
  REQUIRE(graph.ok());
  CHECK(Text(*graph) == Text(Diamond()));
}

TEST_CASE(
    "layer order: a layer keeps what it reads, also where that was left out") {
  const auto graph =
      ReorderGraph(Diamond(), OrderedAs({"a", "c", "b", "d", "loss"}));
  REQUIRE(graph.ok());
  CHECK(Text(*graph) == "a(x) c(a) b(a) d(b,c) loss(d,y)");
  CHECK(graph->name() == "diamond");
}

TEST_CASE("layer order: one that is not an order of the graph is refused") {
  const auto refusal = [](const std::vector<std::string>& names) {
    const auto graph = ReorderGraph(Diamond(), OrderedAs(names));
    REQUIRE_FALSE(graph.ok());
    return std::string(graph.status().message());
  };
  CHECK(refusal({"a", "d", "b", "c", "loss"}) ==
        "plan: layer_order[1] is \"d\", expected a layer after \"b\", which it "
        "reads");
  CHECK(refusal({"a", "b"}) ==
        "plan: the length of layer_order is 2, expected 5, the number of "
        "layers of the graph");
  CHECK(refusal({"a", "b", "b", "d", "loss"}) ==
        "plan: a layer of layer_order is \"b\", expected a layer of the graph, "
        "each once; plan the job again");
}

TEST_CASE("layer order: a profile is put in the same order") {
  const v1::Graph chain = testing::ChainGraph(3);
  const v1::Profile profile = testing::ProfileOf(chain, {3, 6, 9});
  const v1::Profile moved = ReorderProfile(profile, {1, 0, 2});
  CHECK(moved.layers(0).name() == "l1");
  CHECK(moved.layers(0).forward_seconds() == Approx(2));
  CHECK(moved.batch() == profile.batch());
}

TEST_CASE("layer order: what is read is known by index") {
  CHECK(LayersRead(Diamond()) ==
        std::vector<std::vector<int>>{{}, {0}, {0}, {1, 2}, {3}});
}

}  // namespace
}  // namespace pipework
