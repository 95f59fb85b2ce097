#include "kernels/layers/global_avg_pool2d_shape.h"

#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/status_macros.h"

namespace pipework {

absl::StatusOr<AvgPool2dSpec> ReadGlobalAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  RETURN_IF_ERROR(ArgReader(who, ArgsOf(layer), {}).status());
  RETURN_IF_ERROR(CheckInputs(who, inputs, 1));
  AvgPool2dSpec spec;
  ASSIGN_OR_RETURN(spec.image, ImageOf(who, inputs[0].shape));
  spec.window.kernel_h = spec.window.stride_h = spec.image.height;
  spec.window.kernel_w = spec.window.stride_w = spec.image.width;
  return spec;
}

absl::StatusOr<LayerInfo> InferGlobalAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs) {
  ASSIGN_OR_RETURN(const AvgPool2dSpec spec,
                   ReadGlobalAvgPool2d(layer, inputs));
  LayerInfo info;
  info.output.shape = Shape({spec.image.channels, 1, 1});
  info.forward_operations = static_cast<double>(inputs[0].shape.elements());
  info.backward_operations = info.forward_operations;
  return info;
}

}  // namespace pipework
