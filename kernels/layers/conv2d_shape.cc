#include "kernels/layers/conv2d_shape.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr absl::string_view kArgs[] = {
    "out", "kernel", "stride", "padding", "dilation", "groups", "bias"};

}  // namespace

absl::StatusOr<Conv2dSpec> ReadConv2d(const v1::Layer& layer,
                                      absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  ArgReader args(who, ArgsOf(layer), kArgs);
  Conv2dSpec spec;
  spec.out = args.RequiredInt("out");
  spec.window = ReadWindow(args, /*stride_is_kernel=*/false,
                           /*has_dilation=*/true);
  spec.groups = args.Int("groups", 1);
  spec.bias = args.Bool("bias", true);
  RETURN_IF_ERROR(args.status());
  RETURN_IF_ERROR(CheckInputs(who, inputs, 1));
  ASSIGN_OR_RETURN(spec.image, ImageOf(who, inputs[0].shape));
  if (spec.image.channels % spec.groups != 0 || spec.out % spec.groups != 0) {
    return Mismatch(who, "groups", absl::StrCat(spec.groups),
                    absl::StrCat("a divisor of ", spec.image.channels,
                                 " channels of its input and ", spec.out,
                                 " of its output"));
  }
  return spec;
}

absl::StatusOr<LayerInfo> InferConv2d(const v1::Layer& layer,
                                      absl::Span<const TensorSpec> inputs) {
  ASSIGN_OR_RETURN(const Conv2dSpec spec, ReadConv2d(layer, inputs));
  const std::string who = LayerWho(layer);
  const Window2d& window = spec.window;
  ASSIGN_OR_RETURN(const Extent extent, WindowOutput(who, window, spec.image));

  LayerInfo info;
  info.output.shape = Shape({spec.out, extent.height, extent.width});
  RETURN_IF_ERROR(CheckShape(who, "shape of its output", info.output.shape));

  ParamSpec weight{"weight",
                   Shape({spec.out, spec.image.channels / spec.groups,
                          window.kernel_h, window.kernel_w}),
                   InitKind::kUniform};
  RETURN_IF_ERROR(CheckShape(who, "shape of weight", weight.shape));
  const double terms =
      static_cast<double>(weight.shape.WithoutBatch().elements());
  weight.bound = 1.0 / std::sqrt(terms);
  info.params.push_back(weight);
  if (spec.bias) {
    info.params.push_back(
        {"bias", Shape({spec.out}), InitKind::kUniform, weight.bound});
  }

  const double outputs = static_cast<double>(info.output.shape.elements());
  info.forward_operations = outputs * (2 * terms + (spec.bias ? 1 : 0));
  info.backward_operations = outputs * (4 * terms + (spec.bias ? 1 : 0));
  info.saves_input = true;
  return info;
}

}  // namespace pipework
