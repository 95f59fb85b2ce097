#include "kernels/layers/avg_pool2d_shape.h"

#include "kernels/layers/args.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr absl::string_view kArgs[] = {"kernel", "stride", "padding"};

}  // namespace

absl::StatusOr<AvgPool2dSpec> ReadAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  ArgReader args(who, ArgsOf(layer), kArgs);
  AvgPool2dSpec spec;
  spec.window = ReadWindow(args, /*stride_is_kernel=*/true,
                           /*has_dilation=*/false);
  RETURN_IF_ERROR(args.status());
  RETURN_IF_ERROR(CheckPoolPadding(who, spec.window));
  RETURN_IF_ERROR(CheckInputs(who, inputs, 1));
  ASSIGN_OR_RETURN(spec.image, ImageOf(who, inputs[0].shape));
  return spec;
}

absl::StatusOr<LayerInfo> InferAvgPool2d(const v1::Layer& layer,
                                         absl::Span<const TensorSpec> inputs) {
  ASSIGN_OR_RETURN(const AvgPool2dSpec spec, ReadAvgPool2d(layer, inputs));
  const std::string who = LayerWho(layer);
  ASSIGN_OR_RETURN(const Extent extent,
                   WindowOutput(who, spec.window, spec.image));

  LayerInfo info;
  info.output.shape = Shape({spec.image.channels, extent.height, extent.width});
  RETURN_IF_ERROR(CheckShape(who, "shape of its output", info.output.shape));
  const double outputs = static_cast<double>(info.output.shape.elements());
  info.forward_operations = outputs *
                            static_cast<double>(spec.window.kernel_h) *
                            static_cast<double>(spec.window.kernel_w);
  info.backward_operations = info.forward_operations;
  return info;
}

}  // namespace pipework
