#include "daemon/executor/stage_layout.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pipework {
namespace {

v1::Layer Linear(const std::string& name, const std::string& input) {
  v1::Layer layer;
  layer.set_name(name);
  layer.set_type("linear");
  v1::Arg* out = layer.add_args();
  out->set_name("out");
  out->set_int_value(4);
  layer.add_inputs(input);
  return layer;
}

v1::Layer Add(const std::string& name, const std::string& a,
              const std::string& b) {
  v1::Layer layer;
  layer.set_name(name);
  layer.set_type("add");
  layer.add_inputs(a);
  layer.add_inputs(b);
  return layer;
}

// a is read by b, c, d and e:
//   a; b(a); c(a); d(a); s1 = b + c; s2 = s1 + d; e = s2 + a; loss(e, y)
v1::Graph Fan() {
  v1::Graph graph;
  graph.set_name("fan");
  graph.add_input_shape(4);
  *graph.add_layers() = Linear("a", "x");
  *graph.add_layers() = Linear("b", "a");
  *graph.add_layers() = Linear("c", "a");
  *graph.add_layers() = Linear("d", "a");
  *graph.add_layers() = Add("s1", "b", "c");
  *graph.add_layers() = Add("s2", "s1", "d");
  *graph.add_layers() = Add("e", "s2", "a");
  v1::Layer* loss = graph.add_layers();
  loss->set_name("loss");
  loss->set_type("softmax_cross_entropy");
  loss->add_inputs("e");
  loss->add_inputs("y");
  return graph;
}

v1::Plan Plan(const std::vector<int>& ends) {
  v1::Plan plan;
  int first = 0;
  for (const int end : ends) {
    v1::PlanStage* stage = plan.add_stages();
    stage->set_first_layer(first);
    stage->set_end_layer(end);
    stage->set_replicas(1);
    first = end;
  }
  return plan;
}

StageLayout Layout(const v1::Plan& plan, int stage) {
  const v1::Graph graph = Fan();
  auto info = InferGraph(graph);
  INFO(info.status().ToString());
  REQUIRE(info.ok());
  auto layout = LayoutOf(graph, *info, plan, StageId(stage));
  INFO(layout.status().ToString());
  REQUIRE(layout.ok());
  return *std::move(layout);
}

// "to 1: 0 y | gradients 0 0": producers of an edge's tensors and gradients.
std::string Text(const EdgeLayout& edge) {
  const auto name = [](int producer) -> std::string {
    return producer == kInputX   ? "x"
           : producer == kInputY ? "y"
                                 : absl::StrCat(producer);
  };
  std::string text = absl::StrCat(edge.peer.value(), ":");
  for (const EdgeTensor& tensor : edge.tensors) {
    absl::StrAppend(&text, " ", name(tensor.producer));
  }
  absl::StrAppend(&text, " |");
  for (const GradientPart& part : edge.gradients) {
    absl::StrAppend(&text, " ", name(part.producer));
  }
  return text;
}

std::string Text(const std::vector<EdgeLayout>& edges) {
  std::vector<std::string> texts;
  for (const EdgeLayout& edge : edges) texts.push_back(Text(edge));
  return absl::StrJoin(texts, ", ");
}

}  // namespace

TEST_CASE(
    "layout: both ends of every edge list the same tensors in one order") {
  const v1::Plan plan = Plan({1, 3, 6, 8});
  for (int from = 0; from < 4; ++from) {
    const StageLayout sender = Layout(plan, from);
    for (const EdgeLayout& out : sender.outputs) {
      const StageLayout receiver = Layout(plan, out.peer.value());
      bool found = false;
      for (const EdgeLayout& in : receiver.inputs) {
        if (in.peer != StageId(from)) continue;
        found = true;
        REQUIRE(in.tensors.size() == out.tensors.size());
        for (size_t t = 0; t < in.tensors.size(); ++t) {
          CHECK(in.tensors[t].producer == out.tensors[t].producer);
          CHECK(in.tensors[t].spec.shape == out.tensors[t].spec.shape);
        }
        REQUIRE(in.gradients.size() == out.gradients.size());
        for (size_t p = 0; p < in.gradients.size(); ++p) {
          CHECK(in.gradients[p].producer == out.gradients[p].producer);
        }
      }
      CAPTURE(from, out.peer.value());
      CHECK(found);
    }
  }
}

TEST_CASE("layout: a tensor goes straight to each stage that reads it") {
  const v1::Plan plan = Plan({1, 3, 6, 8});
  // Stage 1 has b and c: two readers that are not the last, so two parts.
  CHECK(Text(Layout(plan, 0).outputs) == "1: 0 | 0 0, 2: 0 | 0, 3: 0 y | 0");
  CHECK(Text(Layout(plan, 1).outputs) == "2: 1 2 | 1 2");
  CHECK(Text(Layout(plan, 3).inputs) == "0: 0 y | 0, 2: 5 | 5");
  CHECK(Layout(plan, 3).has_loss);
  CHECK(Layout(plan, 0).x_slot >= 0);
  CHECK(Layout(plan, 0).y_slot >= 0);
  CHECK(Layout(plan, 3).x_slot == -1);
}

TEST_CASE("layout: the last stage that reads a tensor adds up what it has") {
  // b and c on stage 0 with a; d, s1, s2, e on stage 1: d and e read a there.
  const v1::Plan plan = Plan({3, 8});
  CHECK(Text(Layout(plan, 0).outputs) == "1: 0 1 2 y | 0 1 2");
}

TEST_CASE("layout: parameters are named layer.parameter, in graph order") {
  const StageLayout layout = Layout(Plan({1, 3, 6, 8}), 1);
  std::vector<std::string> names;
  for (const StageTensor& param : layout.params) names.push_back(param.name);
  CHECK(absl::StrJoin(names, " ") == "b.weight b.bias c.weight c.bias");
  CHECK(layout.layers[1].first_param == 2);
  CHECK(layout.layers[1].params == 2);
}

TEST_CASE("layout: an input may be given away only at its last use") {
  const StageLayout one = Layout(Plan({8}), 0);
  // a (slot 0) is read by b, c, d and last by e.
  CHECK_FALSE(one.layers[1].last_use[0]);
  CHECK_FALSE(one.layers[2].last_use[0]);
  CHECK_FALSE(one.layers[3].last_use[0]);
  CHECK(one.layers[6].last_use[1]);
  // What is sent is not given away.
  const StageLayout first = Layout(Plan({3, 8}), 0);
  CHECK_FALSE(first.layers[2].last_use[0]);
}

TEST_CASE("layout: a plan that does not cover the graph is refused") {
  const v1::Graph graph = Fan();
  auto info = InferGraph(graph);
  REQUIRE(info.ok());
  for (const std::vector<int>& ends :
       {std::vector<int>{3}, {3, 3, 8}, {3, 9}}) {
    CAPTURE(ends);
    CHECK_FALSE(LayoutOf(graph, *info, Plan(ends), StageId(0)).ok());
  }
  CHECK_FALSE(LayoutOf(graph, *info, Plan({3, 8}), StageId(2)).ok());
}

}  // namespace pipework
