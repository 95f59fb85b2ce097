#include "tools/bench/planner/cases.h"

#include "absl/strings/str_cat.h"
#include "partitioner/graph_text.h"
#include "partitioner/profile.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

LayerGraph::Node Recurrent(std::string name, double slower) {
  LayerGraph::Node node;
  node.name = std::move(name);
  node.cost.forward_seconds = 2.5e-3 * slower;
  node.cost.backward_seconds = 4.2e-3 * slower;
  node.cost.output_bytes = 6291456;
  node.cost.parameter_bytes = 33587200;
  return node;
}

}  // namespace

absl::StatusOr<LayerGraph> GraphOfText(absl::string_view text,
                                       absl::string_view source) {
  ASSIGN_OR_RETURN(const v1::Profile profile, ParseProfile(text, source));
  ASSIGN_OR_RETURN(const v1::Graph graph, GraphOfProfile(profile));
  return MakeLayerGraph(graph, profile, /*scale=*/1);
}

LayerGraph TwoBranches(int layers) {
  LayerGraph graph;
  for (const char* branch : {"encoder", "decoder"}) {
    for (int l = 0; l < layers; ++l) {
      // Unequal layers, or too many partitions are the best.
      graph.nodes.push_back(
          Recurrent(absl::StrCat(branch, l), 0.5 + l * 7 % 11 / 10.0));
      if (l > 0) graph.nodes.back().inputs = {graph.size() - 2};
    }
  }
  graph.nodes.push_back(Recurrent("classifier", 1));
  graph.nodes.back().inputs = {layers - 1, 2 * layers - 1};
  return graph;
}

LayerGraph Chain(int layers) {
  LayerGraph graph;
  for (int l = 0; l < layers; ++l) {
    graph.nodes.push_back(Recurrent(absl::StrCat("layer", l), 1 + (l % 8) / 7));
    if (l > 0) graph.nodes.back().inputs = {l - 1};
  }
  return graph;
}

v1::Profile ProfileOf(const LayerGraph& graph) {
  v1::Profile profile;
  profile.set_batch(1);
  for (const LayerGraph::Node& node : graph.nodes) {
    v1::LayerProfile* layer = profile.add_layers();
    layer->set_name(node.name);
    layer->set_forward_seconds(node.cost.forward_seconds);
    layer->set_backward_seconds(node.cost.backward_seconds);
    layer->set_output_bytes(node.cost.output_bytes);
    layer->set_parameter_bytes(node.cost.parameter_bytes);
    for (const int input : node.inputs) {
      layer->add_inputs(graph.nodes[input].name);
    }
    if (node.inputs.empty()) layer->add_inputs("x");
  }
  return profile;
}

v1::Topology TopologyOf(const std::vector<Level>& levels) {
  v1::Topology topology;
  for (const Level& level : levels) {
    v1::Topology::Level* out = topology.add_levels();
    out->set_count(level.components);
    out->set_bytes_per_second(level.link.bytes_per_second);
    out->set_latency_seconds(level.link.latency_seconds);
  }
  return topology;
}

PartitionInput InputOf(const StateGraph& states,
                       const std::vector<Level>& levels,
                       const CostModel* model) {
  PartitionInput input;
  for (const State& state : states.states) {
    input.state_seconds.push_back(state.compute_seconds);
    input.state_weight_bytes.push_back(state.parameter_bytes);
    input.cut_bytes.push_back(state.cut_bytes);
    input.predecessors.push_back(state.predecessors);
  }
  input.levels = levels;
  input.cost_model = model;
  return input;
}

std::vector<Level> Levels(const std::vector<int>& components) {
  std::vector<Level> levels;
  for (const int m : components) {
    levels.push_back({m, {levels.empty() ? 8e9 : 1.25e9, 2e-5}});
  }
  return levels;
}

std::string LevelsText(const std::vector<Level>& levels) {
  std::string text;
  for (const Level& level : levels) {
    absl::StrAppend(&text, text.empty() ? "" : " x ", level.components);
  }
  return text;
}

}  // namespace pipework
