#include "scheduler/layer_order.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/errors.h"

namespace pipework {
namespace {

// The names that a layer reads, those left out in the graph included.
std::vector<std::string> InputsOf(const v1::Graph& graph, int index) {
  const v1::Layer& layer = graph.layers(index);
  if (!layer.inputs().empty()) {
    return {layer.inputs().begin(), layer.inputs().end()};
  }
  if (index == 0) return {"x"};
  std::vector<std::string> inputs = {graph.layers(index - 1).name()};
  // The loss reads the labels.
  if (index + 1 == graph.layers_size()) inputs.push_back("y");
  return inputs;
}

}  // namespace

absl::StatusOr<v1::Graph> ReorderGraph(const v1::Graph& graph,
                                       const std::vector<int>& order) {
  if (static_cast<int>(order.size()) != graph.layers_size()) {
    return Mismatch("plan", "the length of layer_order",
                    absl::StrCat(order.size()),
                    absl::StrCat(graph.layers_size(),
                                 ", the number of layers of the graph"));
  }
  if (std::is_sorted(order.begin(), order.end())) return graph;
  v1::Graph out = graph;
  out.clear_layers();
  absl::flat_hash_map<std::string, int> place;
  for (size_t i = 0; i < order.size(); ++i) {
    const v1::Layer& layer = graph.layers(order[i]);
    v1::Layer* placed = out.add_layers();
    *placed = layer;
    placed->clear_inputs();
    for (const std::string& input : InputsOf(graph, order[i])) {
      if (input != "x" && input != "y" && place.count(input) == 0) {
        return Mismatch(
            "plan", absl::StrCat("layer_order[", i, "]"),
            absl::StrCat("\"", layer.name(), "\""),
            absl::StrCat("a layer after \"", input, "\", which it reads"));
      }
      placed->add_inputs(input);
    }
    place[layer.name()] = static_cast<int>(i);
  }
  return out;
}

absl::StatusOr<v1::Graph> ReorderGraph(const v1::Graph& graph,
                                       const v1::Plan& plan) {
  if (plan.layer_order().empty()) return graph;
  absl::flat_hash_map<std::string, int> index_of;
  for (int l = 0; l < graph.layers_size(); ++l) {
    index_of[graph.layers(l).name()] = l;
  }
  std::vector<int> order;
  for (const std::string& name : plan.layer_order()) {
    const auto found = index_of.find(name);
    if (found == index_of.end()) {
      return Mismatch("plan", "a layer of layer_order",
                      absl::StrCat("\"", name, "\""),
                      "a layer of the graph, each once", "plan the job again");
    }
    order.push_back(found->second);
    index_of.erase(found);
  }
  return ReorderGraph(graph, order);
}

v1::Profile ReorderProfile(const v1::Profile& profile,
                           const std::vector<int>& order) {
  v1::Profile out = profile;
  out.clear_layers();
  for (const int layer : order) *out.add_layers() = profile.layers(layer);
  return out;
}

std::vector<std::vector<int>> LayersRead(const v1::Graph& graph) {
  absl::flat_hash_map<std::string, int> index_of;
  std::vector<std::vector<int>> read(graph.layers_size());
  for (int l = 0; l < graph.layers_size(); ++l) {
    for (const std::string& input : InputsOf(graph, l)) {
      const auto found = index_of.find(input);
      if (found != index_of.end()) read[l].push_back(found->second);
    }
    index_of[graph.layers(l).name()] = l;
  }
  return read;
}

}  // namespace pipework
