// Shapes of a whole graph, and its checks.
#ifndef PIPEWORK_KERNELS_LAYERS_GRAPH_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_GRAPH_SHAPE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/layers/layer_shape.h"
#include "proto/graph.pb.h"

namespace pipework {

struct GraphInfo {
  // One for each layer, in graph order.
  std::vector<LayerInfo> layers;
  // inputs[i][j] is the layer that input j of layer i comes from, kInputX for
  // the sample, kInputY for the label.
  std::vector<std::vector<int>> inputs;
  TensorSpec x;
  TensorSpec y;  // i32
  // Trained parameters in all.
  int64_t parameters = 0;
};
constexpr int kInputX = -1;
constexpr int kInputY = -2;

// Empty `inputs` mean the layer before ("x" for the first; the loss adds "y").
// InvalidArgument names the layer: duplicate or empty name, a name with
// characters outside [A-Za-z0-9_.-], unknown input, an input that comes
// later, a layer nobody reads, no loss at the end, more than one loss, shapes
// that do not fit, over 100,000 layers, a product that overflows.
absl::StatusOr<GraphInfo> InferGraph(const v1::Graph& graph);

// 16 hexadecimal digits over names, types, arguments, wiring and shapes.
std::string GraphHash(const v1::Graph& graph);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_GRAPH_SHAPE_H_
