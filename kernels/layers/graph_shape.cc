#include "kernels/layers/graph_shape.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int kMaxLayers = 100000;
constexpr size_t kMaxNameLength = 200;
constexpr int kMaxInputs = 1000;
// Every multiple of a sum of parameters that anyone forms (bytes of state,
// versions) then stays within 64 bits.
constexpr int64_t kMaxParameters = int64_t{1} << 50;

bool IsNameCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

// Names become part of tensor names, of file names and of messages.
absl::Status CheckName(int index, const std::string& name) {
  const std::string who = absl::StrCat("graph: layer ", index);
  if (name.empty()) return Mismatch(who, "name", "empty", "a name");
  if (name.size() > kMaxNameLength) {
    return Mismatch(who, "length of its name", absl::StrCat(name.size()),
                    absl::StrCat("at most ", kMaxNameLength));
  }
  if (!std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return Mismatch(who, "name", Quoted(name),
                    "letters, digits, '_', '.' and '-'");
  }
  if (name == "x" || name == "y") {
    return Mismatch(who, "name", Quoted(name), "another one",
                    "x and y are the inputs of the graph");
  }
  // "optimizer.STATE.LAYER.PARAMETER" are the names of optimizer state.
  if (name.compare(0, 10, "optimizer.") == 0) {
    return Mismatch(who, "name", Quoted(name),
                    "one that does not begin with \"optimizer.\"");
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> GraphInput(
    absl::string_view what,
    const google::protobuf::RepeatedField<int64_t>& dims) {
  Shape shape(std::vector<int64_t>(dims.begin(), dims.end()));
  RETURN_IF_ERROR(CheckShape("graph", what, shape));
  return shape;
}

// Name, type, arguments, wiring and shapes, each field with its length before
// it, so that no two graphs give the same text.
class Digest {
 public:
  void Text(absl::string_view text) {
    Number(static_cast<int64_t>(text.size()));
    for (unsigned char c : text) Byte(c);
  }
  void Number(int64_t value) {
    for (int i = 0; i < 8; ++i) {
      Byte(static_cast<unsigned char>(static_cast<uint64_t>(value) >> (8 * i)));
    }
  }
  std::string Hex() const {
    // The finishing steps of MurmurHash3: FNV alone leaves the high bits of
    // the last bytes unmixed.
    uint64_t h = hash_;
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    h ^= h >> 33;
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, h);
    return text;
  }

 private:
  void Byte(unsigned char c) { hash_ = (hash_ ^ c) * 0x100000001b3ULL; }
  uint64_t hash_ = 0xcbf29ce484222325ULL;  // FNV-1a
};

void DigestArg(const v1::Arg& arg, Digest& digest) {
  digest.Text(arg.name());
  digest.Number(arg.value_case());
  switch (arg.value_case()) {
    case v1::Arg::kIntValue:
      digest.Number(arg.int_value());
      break;
    case v1::Arg::kRealValue: {
      int64_t bits = 0;
      const double value = arg.real_value();
      std::memcpy(&bits, &value, sizeof bits);
      digest.Number(bits);
      break;
    }
    case v1::Arg::kBoolValue:
      digest.Number(arg.bool_value() ? 1 : 0);
      break;
    case v1::Arg::kTextValue:
      digest.Text(arg.text_value());
      break;
    case v1::Arg::kIntsValue:
      digest.Number(arg.ints_value().values_size());
      for (int64_t value : arg.ints_value().values()) digest.Number(value);
      break;
    case v1::Arg::VALUE_NOT_SET:
      break;
  }
}

// The inputs of layer `index` by name, left-out ones filled in.
std::vector<std::string> InputNames(const v1::Graph& graph, int index) {
  const v1::Layer& layer = graph.layers(index);
  if (layer.inputs_size() > 0) {
    return {layer.inputs().begin(), layer.inputs().end()};
  }
  std::vector<std::string> names = {
      index == 0 ? "x" : graph.layers(index - 1).name()};
  if (IsLossType(layer.type())) names.push_back("y");
  return names;
}

}  // namespace

absl::StatusOr<GraphInfo> InferGraph(const v1::Graph& graph) {
  const int layers = graph.layers_size();
  if (layers == 0)
    return Mismatch("graph", "number of layers", "0", "1 or more");
  if (layers > kMaxLayers) {
    return Mismatch("graph", "number of layers", absl::StrCat(layers),
                    absl::StrCat("at most ", kMaxLayers));
  }

  GraphInfo info;
  ASSIGN_OR_RETURN(info.x.shape,
                   GraphInput("shape of a sample", graph.input_shape()));
  ASSIGN_OR_RETURN(info.y.shape,
                   GraphInput("shape of a label", graph.label_shape()));
  info.y.dtype = DType::kI32;

  std::unordered_map<std::string, int> indices;
  indices.reserve(static_cast<size_t>(layers));
  for (int i = 0; i < layers; ++i) {
    const std::string& name = graph.layers(i).name();
    RETURN_IF_ERROR(CheckName(i, name));
    const auto [entry, fresh] = indices.emplace(name, i);
    if (!fresh) {
      return Mismatch(
          absl::StrCat("graph: layer ", i), "name", Quoted(name),
          absl::StrCat("one that layer ", entry->second, " does not have"));
    }
  }

  std::vector<bool> is_read(static_cast<size_t>(layers), false);
  std::vector<TensorSpec> specs;
  for (int i = 0; i < layers; ++i) {
    const v1::Layer& layer = graph.layers(i);
    const std::string who = LayerWho(layer);
    if (layer.inputs_size() > kMaxInputs) {
      return Mismatch(who, "number of inputs",
                      absl::StrCat(layer.inputs_size()),
                      absl::StrCat("at most ", kMaxInputs));
    }
    std::vector<int> inputs;
    specs.clear();
    for (const std::string& name : InputNames(graph, i)) {
      if (name == "x" || name == "y") {
        inputs.push_back(name == "x" ? kInputX : kInputY);
        specs.push_back(name == "x" ? info.x : info.y);
      } else {
        const auto found = indices.find(name);
        if (found == indices.end()) {
          return Mismatch(who, "an input", Quoted(name),
                          "x, y or the name of an earlier layer");
        }
        if (found->second >= i) {
          return Mismatch(
              who, "an input",
              absl::StrCat(Quoted(name), ", which is layer ", found->second),
              absl::StrCat("a layer before ", i),
              "put layers after those that they read");
        }
        inputs.push_back(found->second);
        is_read[static_cast<size_t>(found->second)] = true;
        specs.push_back(info.layers[static_cast<size_t>(found->second)].output);
      }
      if (std::count(inputs.begin(), inputs.end(), inputs.back()) > 1) {
        return Mismatch(who, "an input", absl::StrCat(Quoted(name), " twice"),
                        "each input once");
      }
    }

    absl::StatusOr<LayerInfo> layer_info = InferLayer(layer, specs);
    if (!layer_info.ok()) return layer_info.status();
    if (layer_info->is_loss != (i + 1 == layers)) {
      return layer_info->is_loss
                 ? Mismatch(who, "place of the loss", absl::StrCat("layer ", i),
                            absl::StrCat("the last layer, ", layers - 1),
                            "a graph has one loss, at its end")
                 : Mismatch(who, "type of the last layer",
                            Printable(layer.type()), "a loss",
                            "end with softmax_cross_entropy");
    }
    for (const ParamSpec& param : layer_info->params) {
      info.parameters += param.shape.elements();
    }
    if (info.parameters > kMaxParameters) {
      return Mismatch(who, "number of parameters up to it",
                      absl::StrCat(info.parameters),
                      absl::StrCat("at most ", kMaxParameters));
    }
    info.layers.push_back(*std::move(layer_info));
    info.inputs.push_back(std::move(inputs));
  }

  for (int i = 0; i + 1 < layers; ++i) {
    if (!is_read[static_cast<size_t>(i)]) {
      return absl::InvalidArgumentError(absl::StrCat(
          LayerWho(graph.layers(i)),
          ": no layer reads its output; remove it, or name it as an input"));
    }
  }
  return info;
}

std::string GraphHash(const v1::Graph& graph) {
  Digest digest;
  digest.Number(graph.input_shape_size());
  for (int64_t dim : graph.input_shape()) digest.Number(dim);
  digest.Number(graph.label_shape_size());
  for (int64_t dim : graph.label_shape()) digest.Number(dim);
  digest.Number(graph.layers_size());
  for (int i = 0; i < graph.layers_size(); ++i) {
    const v1::Layer& layer = graph.layers(i);
    digest.Text(layer.name());
    digest.Text(layer.type());
    std::vector<const v1::Arg*> args(ArgsOf(layer).begin(),
                                     ArgsOf(layer).end());
    std::sort(args.begin(), args.end(), [](const v1::Arg* a, const v1::Arg* b) {
      return a->name() < b->name();
    });
    digest.Number(static_cast<int64_t>(args.size()));
    for (const v1::Arg* arg : args) DigestArg(*arg, digest);
    const std::vector<std::string> inputs = InputNames(graph, i);
    digest.Number(static_cast<int64_t>(inputs.size()));
    for (const std::string& input : inputs) digest.Text(input);
  }
  return digest.Hex();
}

}  // namespace pipework
