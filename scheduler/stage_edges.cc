#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "proto/check.h"
#include "scheduler/compile.h"

namespace pipework {

std::vector<StageEdge> StageEdges(const v1::Graph& graph,
                                  const v1::Plan& plan) {
  const int layers = graph.layers_size();
  std::vector<int> stage_of(layers, 0);
  for (int s = 0; s < plan.stages_size(); ++s) {
    const v1::PlanStage& stage = plan.stages(s);
    PIPE_CHECK(stage.first_layer() >= 0 && stage.end_layer() <= layers);
    for (int l = stage.first_layer(); l < stage.end_layer(); ++l) {
      stage_of[l] = s;
    }
  }

  absl::flat_hash_map<std::string, int> index_of;
  std::map<std::pair<int, int>, bool> gradient;  // of (from, to)
  for (int l = 0; l < layers; ++l) {
    const v1::Layer& layer = graph.layers(l);
    index_of[layer.name()] = l;
    // An input of a layer, by the stage it comes from.
    const auto read = [&](int from, bool has_gradient) {
      if (from == stage_of[l]) return;
      gradient[{from, stage_of[l]}] |= has_gradient;
    };
    if (layer.inputs().empty()) {
      if (l == 0) {
        read(0, false);  // x
      } else {
        read(stage_of[l - 1], true);
        if (l + 1 == layers) read(0, false);  // the loss reads y
      }
      continue;
    }
    for (const std::string& input : layer.inputs()) {
      const auto found = index_of.find(input);
      if (found == index_of.end()) {
        read(0, false);  // x or y
      } else {
        read(stage_of[found->second], true);
      }
    }
  }

  std::vector<StageEdge> edges;
  for (const auto& [pair, has_gradient] : gradient) {
    edges.push_back({StageId{pair.first}, StageId{pair.second}, has_gradient});
  }
  return edges;
}

PipelineShape ShapeOf(const v1::Graph& graph, const v1::Plan& plan) {
  PipelineShape shape;
  for (const v1::PlanStage& stage : plan.stages()) {
    shape.replicas.push_back(stage.replicas());
    // Another number of them than replicas is refused when it is compiled.
    shape.shares.push_back(
        stage.shares_size() == stage.replicas()
            ? NormalShares(stage.shares())
            : std::vector<int>(stage.shares().begin(), stage.shares().end()));
  }
  shape.edges = StageEdges(graph, plan);
  shape.in_flight = plan.in_flight();
  return shape;
}

}  // namespace pipework
