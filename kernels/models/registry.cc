// The table of built-in networks.
#include "kernels/models/registry.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/layers/args.h"
#include "kernels/layers/graph_shape.h"
#include "kernels/models/lenet5.h"
#include "kernels/models/linear_chain.h"
#include "kernels/models/mlp.h"
#include "kernels/models/resnet_small.h"
#include "kernels/models/small_cnn.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

struct Entry {
  ModelType type;
  absl::StatusOr<v1::Graph> (*build)(absl::Span<const v1::Arg* const>,
                                     const ModelEnds&);
};

constexpr Entry kModels[] = {
    {{"small_cnn",
      "three convolutions and two linear layers, for small images; args: width "
      "(16), batch_norm (false), dropout (0)"},
     &BuildSmallCnn},
    {{"mlp",
      "linear layers and rectifiers; args: hidden ([64,64]), dropout (0)"},
     &BuildMlp},
    {{"lenet5", "LeNet-5 with rectifiers and max pooling; no args"},
     &BuildLenet5},
    {{"resnet_small",
      "residual network with batch norm; args: widths ([16,32]), blocks (1), "
      "dropout (0)"},
     &BuildResnetSmall},
    {{"linear_chain",
      "a product of scalar weights, for tests of weight versions; args: depth "
      "(3)"},
     &BuildLinearChain},
};

}  // namespace

absl::Span<const ModelType> ModelTypes() {
  static const std::vector<ModelType> types = [] {
    std::vector<ModelType> out;
    for (const Entry& entry : kModels) out.push_back(entry.type);
    return out;
  }();
  return types;
}

absl::StatusOr<v1::Graph> BuildModel(absl::string_view name,
                                     absl::Span<const v1::Arg* const> args,
                                     const ModelEnds& ends) {
  std::vector<absl::string_view> known;
  for (const Entry& entry : kModels) {
    if (entry.type.name == name) {
      ASSIGN_OR_RETURN(v1::Graph graph, entry.build(args, ends));
      // What the arguments and the data make of it may still not fit.
      RETURN_IF_ERROR(WithContext(absl::StrCat("model ", name),
                                  InferGraph(graph).status()));
      return graph;
    }
    known.push_back(entry.type.name);
  }
  const std::string nearest = NearestName(name, known);
  return absl::InvalidArgumentError(absl::StrCat(
      "model: name is ", Quoted(name), ", expected one of ",
      absl::StrJoin(known, ", "),
      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

}  // namespace pipework
