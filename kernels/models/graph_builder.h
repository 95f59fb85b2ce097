// Builds a graph layer by layer, so that a network reads as its layers.
#ifndef PIPEWORK_KERNELS_MODELS_GRAPH_BUILDER_H_
#define PIPEWORK_KERNELS_MODELS_GRAPH_BUILDER_H_

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/models/registry.h"
#include "proto/graph.pb.h"

namespace pipework {

// One argument of a layer.
struct LayerArg {
  LayerArg(absl::string_view name, int64_t value);
  LayerArg(absl::string_view name, int value)
      : LayerArg(name, static_cast<int64_t>(value)) {}
  LayerArg(absl::string_view name, double value);
  LayerArg(absl::string_view name, bool value);

  v1::Arg arg;
};

class GraphBuilder {
 public:
  GraphBuilder(absl::string_view name, const ModelEnds& ends);

  // Appends a layer that reads `inputs`, or the layer before it. Returns its
  // name.
  std::string Add(absl::string_view name, absl::string_view type,
                  std::initializer_list<LayerArg> args = {},
                  const std::vector<std::string>& inputs = {});

  // The name of the newest layer.
  const std::string& last() const { return last_; }
  v1::Graph Take() { return std::move(graph_); }

 private:
  v1::Graph graph_;
  std::string last_ = "x";
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_MODELS_GRAPH_BUILDER_H_
