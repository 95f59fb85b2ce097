// The table of layer types, in the order a reader wants. registry.cc has their
// bodies.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/layers/add_shape.h"
#include "kernels/layers/args.h"
#include "kernels/layers/avg_pool2d_shape.h"
#include "kernels/layers/batch_norm_shape.h"
#include "kernels/layers/conv2d_shape.h"
#include "kernels/layers/dropout_shape.h"
#include "kernels/layers/flatten_shape.h"
#include "kernels/layers/global_avg_pool2d_shape.h"
#include "kernels/layers/layer_shape.h"
#include "kernels/layers/linear_shape.h"
#include "kernels/layers/max_pool2d_shape.h"
#include "kernels/layers/mse_shape.h"
#include "kernels/layers/relu_shape.h"
#include "kernels/layers/shape_checks.h"
#include "kernels/layers/softmax_cross_entropy_shape.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

using InferFn = absl::StatusOr<LayerInfo> (*)(const v1::Layer&,
                                              absl::Span<const TensorSpec>);

struct Entry {
  LayerType type;
  InferFn infer;
};

constexpr Entry kLayers[] = {
    {{"linear", "y = x W^T + b; args: out, bias (default true)"}, &InferLinear},
    {{"conv2d",
      "two-dimensional convolution; args: out, kernel, stride (1), padding "
      "(0), "
      "dilation (1), groups (1), bias (true); kernel to dilation are one "
      "number "
      "or [height,width]"},
     &InferConv2d},
    {{"max_pool2d",
      "largest value of each window; args: kernel, stride (default kernel), "
      "padding (0)"},
     &InferMaxPool2d},
    {{"avg_pool2d",
      "mean of each window; args: kernel, stride (default kernel), padding "
      "(0)"},
     &InferAvgPool2d},
    {{"global_avg_pool2d", "mean of each channel: [C,H,W] becomes [C,1,1]"},
     &InferGlobalAvgPool2d},
    {{"relu", "y = max(x, 0)"}, &InferRelu},
    {{"batch_norm",
      "normalises each feature or channel over the batch; args: eps (1e-5), "
      "momentum (0.1)"},
     &InferBatchNorm},
    {{"dropout",
      "in training drops each element with probability p; args: p (0.5)"},
     &InferDropout},
    {{"flatten", "all dimensions of a sample as one"}, &InferFlatten},
    {{"add", "sum of two or more inputs of one shape; give inputs: [A, B]"},
     &InferAdd},
    {{"softmax_cross_entropy",
      "the loss of a classifier; reads logits and the label y",
      /*is_loss=*/true},
     &InferSoftmaxCrossEntropy},
    {{"mse", "half the squared error; reads a prediction and the label y",
      /*is_loss=*/true},
     &InferMse},
};

}  // namespace

absl::Span<const LayerType> LayerTypes() {
  static const std::vector<LayerType> types = [] {
    std::vector<LayerType> out;
    for (const Entry& entry : kLayers) out.push_back(entry.type);
    return out;
  }();
  return types;
}

bool IsLossType(absl::string_view type) {
  for (const Entry& entry : kLayers) {
    if (entry.type.name == type) return entry.type.is_loss;
  }
  return false;
}

absl::StatusOr<LayerInfo> InferLayer(const v1::Layer& layer,
                                     absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  for (size_t i = 0; i < inputs.size(); ++i) {
    RETURN_IF_ERROR(
        CheckShape(who, absl::StrCat("shape of input ", i), inputs[i].shape));
  }
  for (const Entry& entry : kLayers) {
    if (entry.type.name == layer.type()) return entry.infer(layer, inputs);
  }
  std::vector<absl::string_view> known;
  for (const Entry& entry : kLayers) known.push_back(entry.type.name);
  const std::string nearest = NearestName(layer.type(), known);
  return absl::InvalidArgumentError(absl::StrCat(
      who, ": type is not known, expected one of ", absl::StrJoin(known, ", "),
      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

}  // namespace pipework
