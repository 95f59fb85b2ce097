#include "partitioner/profile.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

absl::Status CheckLayer(const v1::Layer& layer,
                        const v1::LayerProfile& profile) {
  if (layer.name() != profile.name()) {
    return Mismatch("profile", "the name of a layer",
                    absl::StrCat("\"", profile.name(), "\""),
                    absl::StrCat("\"", layer.name(), "\""),
                    "profile the graph again");
  }
  const auto number = [&layer](absl::string_view what, double value) {
    if (std::isfinite(value) && value >= 0) return absl::OkStatus();
    return Mismatch("profile", absl::StrCat(what, " of ", layer.name()),
                    absl::StrCat(value), "a number from 0");
  };
  RETURN_IF_ERROR(number("forward_seconds", profile.forward_seconds()));
  RETURN_IF_ERROR(number("backward_seconds", profile.backward_seconds()));
  RETURN_IF_ERROR(number("update_seconds", profile.update_seconds()));
  RETURN_IF_ERROR(number("output_bytes", profile.output_bytes()));
  RETURN_IF_ERROR(number("parameter_bytes", profile.parameter_bytes()));
  RETURN_IF_ERROR(number("saved_bytes", profile.saved_bytes()));
  return number("workspace_bytes", profile.workspace_bytes());
}

// By layer: the last layer that reads its output, and for x and y the last one
// that reads them, or -1.
struct LastReader {
  std::vector<int> of_layer;
  int of_x = -1;
  int of_y = -1;
};

absl::StatusOr<LastReader> LastReaders(const v1::Graph& graph) {
  LastReader last;
  last.of_layer.assign(graph.layers_size(), -1);
  absl::flat_hash_map<absl::string_view, int> index_of;
  for (int l = 0; l < graph.layers_size(); ++l) {
    const v1::Layer& layer = graph.layers(l);
    if (layer.inputs().empty()) {
      (l == 0 ? last.of_x : last.of_layer[l - 1]) = l;
      if (l + 1 == graph.layers_size()) last.of_y = l;
    }
    for (const std::string& input : layer.inputs()) {
      const auto found = index_of.find(input);
      if (found != index_of.end()) {
        last.of_layer[found->second] = l;
      } else if (input == "x") {
        last.of_x = l;
      } else if (input == "y") {
        last.of_y = l;
      } else {
        return Mismatch(absl::StrCat("layer ", layer.name()), "an input",
                        absl::StrCat("\"", input, "\""),
                        "x, y or an earlier layer");
      }
    }
    index_of[layer.name()] = l;
  }
  return last;
}

}  // namespace

absl::StatusOr<ChainProfile> MakeChain(const v1::Graph& graph,
                                       const v1::Profile& profile,
                                       double scale) {
  if (graph.layers_size() == 0 ||
      graph.layers_size() != profile.layers_size()) {
    return Mismatch(
        "profile", "its number of layers", absl::StrCat(profile.layers_size()),
        absl::StrCat(std::max(1, graph.layers_size()), " as in the graph"),
        "profile the graph again");
  }
  const auto scaled = [scale](int64_t bytes) {
    return static_cast<int64_t>(std::llround(bytes * scale));
  };
  ASSIGN_OR_RETURN(const LastReader last, LastReaders(graph));

  ChainProfile chain;
  for (int l = 0; l < graph.layers_size(); ++l) {
    const v1::LayerProfile& from = profile.layers(l);
    RETURN_IF_ERROR(CheckLayer(graph.layers(l), from));
    LayerCost cost;
    cost.forward_seconds = from.forward_seconds() * scale;
    cost.backward_seconds = from.backward_seconds() * scale;
    cost.update_seconds = from.update_seconds();
    cost.output_bytes = scaled(from.output_bytes());
    cost.parameter_bytes = from.parameter_bytes();
    cost.kept_bytes = scaled(from.saved_bytes() + from.output_bytes());
    cost.workspace_bytes = from.workspace_bytes();
    chain.layers.push_back(cost);
  }
  // input_bytes holds one sample and its label; label_bytes those of a unit.
  const int64_t labels = profile.label_bytes();
  const int64_t batch = std::max<int64_t>(1, profile.batch());
  chain.x_bytes =
      scaled(std::max<int64_t>(0, profile.input_bytes() * batch - labels));
  chain.y_bytes = scaled(labels);
  for (int cut = 0; cut < chain.size(); ++cut) {
    int64_t gradient = 0;
    for (int l = 0; l <= cut; ++l) {
      if (last.of_layer[l] > cut) gradient += chain.layers[l].output_bytes;
    }
    int64_t bytes = gradient;
    if (last.of_x > cut) bytes += chain.x_bytes;
    if (last.of_y > cut) bytes += chain.y_bytes;
    chain.gradient_bytes.push_back(gradient);
    chain.cut_bytes.push_back(bytes);
  }
  return chain;
}

}  // namespace pipework
