#include "partitioner/profile.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int kMostLayers = 5000;
constexpr double kMostBytes = 1LL << 47;  // sums of all layers fit int64
constexpr double kMostSeconds = 1e9;

constexpr absl::string_view kAgain = "profile the graph again";

// Text of a file in an error: one short line whatever it holds.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 60)),
                      text.size() > 60 ? "..." : "", "\"");
}

// Names are printed: no control codes, and no bytes that are not UTF-8.
absl::Status CheckPrintable(absl::string_view what, absl::string_view text) {
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return absl::ascii_isprint(c); })) {
    return absl::OkStatus();
  }
  return Mismatch("profile", what, Quoted(text), "printable ASCII",
                  "rename it");
}

absl::Status CheckNumber(absl::string_view what, absl::string_view layer,
                         double value, double most) {
  if (value >= 0 && value <= most) return absl::OkStatus();  // not so: NaN
  return Mismatch(
      "profile",
      layer.empty() ? std::string(what)
                    : absl::StrCat(what, " of layer ", Quoted(layer)),
      absl::StrCat(value), absl::StrCat("a number from 0 to ", most), kAgain);
}

absl::Status CheckNumbers(const v1::LayerProfile& layer) {
  const auto seconds = [&layer](absl::string_view what, double value) {
    return CheckNumber(what, layer.name(), value, kMostSeconds);
  };
  const auto bytes = [&layer](absl::string_view what, int64_t value) {
    return CheckNumber(what, layer.name(), static_cast<double>(value),
                       kMostBytes);
  };
  RETURN_IF_ERROR(seconds("forward_seconds", layer.forward_seconds()));
  RETURN_IF_ERROR(seconds("backward_seconds", layer.backward_seconds()));
  RETURN_IF_ERROR(seconds("update_seconds", layer.update_seconds()));
  RETURN_IF_ERROR(bytes("output_bytes", layer.output_bytes()));
  RETURN_IF_ERROR(bytes("parameter_bytes", layer.parameter_bytes()));
  RETURN_IF_ERROR(bytes("saved_bytes", layer.saved_bytes()));
  return bytes("workspace_bytes", layer.workspace_bytes());
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

absl::Status CheckProfile(const v1::Profile& profile) {
  if (profile.layers().empty() || profile.layers_size() > kMostLayers) {
    return Mismatch("profile", "its number of layers",
                    absl::StrCat(profile.layers_size()),
                    absl::StrCat("1 to ", kMostLayers), kAgain);
  }
  RETURN_IF_ERROR(CheckNumber("batch", "", profile.batch(), 1 << 30));
  RETURN_IF_ERROR(
      CheckNumber("input_bytes", "", profile.input_bytes(), kMostBytes));
  RETURN_IF_ERROR(
      CheckNumber("label_bytes", "", profile.label_bytes(), kMostBytes));
  RETURN_IF_ERROR(CheckNumber("action_seconds", "", profile.action_seconds(),
                              kMostSeconds));
  RETURN_IF_ERROR(CheckPrintable("its name", profile.name()));
  RETURN_IF_ERROR(CheckPrintable("its device_kind", profile.device_kind()));
  absl::flat_hash_set<absl::string_view> all;
  for (const v1::LayerProfile& layer : profile.layers()) {
    RETURN_IF_ERROR(CheckPrintable("the name of a layer", layer.name()));
    RETURN_IF_ERROR(CheckPrintable(
        absl::StrCat("the description of layer ", Quoted(layer.name())),
        layer.description()));
    if (layer.name().empty() || layer.name() == "x" || layer.name() == "y") {
      return Mismatch("profile", "the name of a layer", Quoted(layer.name()),
                      "a name that is not empty, x or y", "rename it");
    }
    if (!all.insert(layer.name()).second) {
      return Mismatch("profile", "the name of a layer",
                      absl::StrCat(Quoted(layer.name()), " twice"),
                      "one layer of that name", "rename one of them");
    }
    RETURN_IF_ERROR(CheckNumbers(layer));
  }
  absl::flat_hash_set<absl::string_view> before = {"x", "y"};
  for (const v1::LayerProfile& layer : profile.layers()) {
    for (const std::string& input : layer.inputs()) {
      if (before.contains(input)) continue;
      const bool later = all.contains(input);
      return Mismatch(
          "profile", absl::StrCat("an input of layer ", Quoted(layer.name())),
          absl::StrCat(Quoted(input), later ? ", which does not come before it"
                                            : ", which is no layer"),
          "x, y or an earlier layer",
          later ? "list layers after all that they read; a cycle cannot be "
                  "planned"
                : "correct the name");
    }
    before.insert(layer.name());
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Graph> GraphOfProfile(const v1::Profile& profile) {
  RETURN_IF_ERROR(CheckProfile(profile));
  v1::Graph graph;
  graph.set_name(profile.name());
  for (int l = 0; l < profile.layers_size(); ++l) {
    const v1::LayerProfile& from = profile.layers(l);
    v1::Layer* layer = graph.add_layers();
    layer->set_name(from.name());
    layer->set_type("profiled");
    *layer->mutable_inputs() = from.inputs();
    if (from.inputs().empty()) {
      layer->add_inputs(l == 0 ? "x" : profile.layers(l - 1).name());
      // A chain that says nothing of its inputs ends in a loss.
      if (l > 0 && l + 1 == profile.layers_size()) layer->add_inputs("y");
    }
  }
  return graph;
}

LayerCost ChainProfile::CostOf(int first, int last) const {
  LayerCost sum;
  for (int l = first; l <= last; ++l) {
    const LayerCost& cost = layers[l];
    sum.forward_seconds += cost.forward_seconds;
    sum.backward_seconds += cost.backward_seconds;
    sum.update_seconds += cost.update_seconds;
    sum.output_bytes = cost.output_bytes;
    sum.parameter_bytes += cost.parameter_bytes;
    sum.kept_bytes += cost.kept_bytes;
    sum.workspace_bytes = std::max(sum.workspace_bytes, cost.workspace_bytes);
  }
  return sum;
}

absl::StatusOr<ChainProfile> MakeChain(const v1::Graph& graph,
                                       const v1::Profile& profile,
                                       double scale) {
  if (graph.layers_size() == 0 ||
      graph.layers_size() != profile.layers_size()) {
    return Mismatch(
        "profile", "its number of layers", absl::StrCat(profile.layers_size()),
        absl::StrCat(std::max(1, graph.layers_size()), " as in the graph"),
        kAgain);
  }
  const auto scaled = [scale](double bytes) {
    return static_cast<int64_t>(
        std::llround(std::min(kMostBytes, bytes * scale)));
  };
  RETURN_IF_ERROR(CheckProfile(profile));
  for (int l = 0; l < graph.layers_size(); ++l) {
    if (graph.layers(l).name() != profile.layers(l).name()) {
      return Mismatch("profile", "the name of a layer",
                      Quoted(profile.layers(l).name()),
                      Quoted(graph.layers(l).name()), kAgain);
    }
  }
  ASSIGN_OR_RETURN(const LastReader last, LastReaders(graph));

  ChainProfile chain;
  chain.outputs_kept = std::none_of(
      profile.layers().begin(), profile.layers().end(),
      [](const v1::LayerProfile& layer) { return layer.saved_bytes() > 0; });
  for (int l = 0; l < graph.layers_size(); ++l) {
    const v1::LayerProfile& from = profile.layers(l);
    LayerCost cost;
    cost.forward_seconds = from.forward_seconds() * scale;
    cost.backward_seconds = from.backward_seconds() * scale;
    cost.update_seconds = from.update_seconds();
    cost.output_bytes = scaled(from.output_bytes());
    cost.parameter_bytes = from.parameter_bytes();
    cost.kept_bytes =
        scaled(chain.outputs_kept ? from.output_bytes() : from.saved_bytes());
    cost.workspace_bytes = from.workspace_bytes();
    chain.layers.push_back(cost);
  }
  // input_bytes holds one sample and its label; label_bytes those of a unit.
  const double labels = profile.label_bytes();
  const double batch = std::max<int64_t>(1, profile.batch());
  chain.x_bytes = scaled(std::min(
      kMostBytes, std::max(0.0, profile.input_bytes() * batch - labels)));
  chain.y_bytes = scaled(labels);
  int64_t gradient = 0;
  std::vector<int64_t> over(chain.layers.size() + 1, 0);  // read last by layer
  for (int cut = 0; cut < chain.size(); ++cut) {
    gradient -= over[cut];
    if (last.of_layer[cut] > cut) {
      gradient += chain.layers[cut].output_bytes;
      over[last.of_layer[cut]] += chain.layers[cut].output_bytes;
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
