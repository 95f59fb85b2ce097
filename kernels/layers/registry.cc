// The bodies of the layer types, in the order of shape_registry.cc.
#include "absl/strings/str_cat.h"
#include "kernels/layers/add.h"
#include "kernels/layers/args.h"
#include "kernels/layers/avg_pool2d.h"
#include "kernels/layers/batch_norm.h"
#include "kernels/layers/conv2d.h"
#include "kernels/layers/dropout.h"
#include "kernels/layers/flatten.h"
#include "kernels/layers/global_avg_pool2d.h"
#include "kernels/layers/layer.h"
#include "kernels/layers/linear.h"
#include "kernels/layers/max_pool2d.h"
#include "kernels/layers/mse.h"
#include "kernels/layers/relu.h"
#include "kernels/layers/softmax_cross_entropy.h"

namespace pipework {
namespace {

using MakeFn = absl::StatusOr<std::unique_ptr<LayerBody>> (*)(
    const v1::Layer&, absl::Span<const TensorSpec>, Backend&);

struct Entry {
  absl::string_view type;
  MakeFn make;
};

constexpr Entry kBodies[] = {
    {"linear", &MakeLinear},
    {"conv2d", &MakeConv2d},
    {"max_pool2d", &MakeMaxPool2d},
    {"avg_pool2d", &MakeAvgPool2d},
    {"global_avg_pool2d", &MakeGlobalAvgPool2d},
    {"relu", &MakeRelu},
    {"batch_norm", &MakeBatchNorm},
    {"dropout", &MakeDropout},
    {"flatten", &MakeFlatten},
    {"add", &MakeAdd},
    {"softmax_cross_entropy", &MakeSoftmaxCrossEntropy},
    {"mse", &MakeMse},
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeLayer(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  for (const Entry& entry : kBodies) {
    if (entry.type == layer.type()) return entry.make(layer, inputs, backend);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(LayerWho(layer), ": type is not known"));
}

}  // namespace pipework
