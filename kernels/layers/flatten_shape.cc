#include "kernels/layers/flatten_shape.h"

#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/status_macros.h"

namespace pipework {

absl::StatusOr<LayerInfo> InferFlatten(const v1::Layer& layer,
                                       absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  RETURN_IF_ERROR(ArgReader(who, ArgsOf(layer), {}).status());
  RETURN_IF_ERROR(CheckInputs(who, inputs, 1));
  LayerInfo info;
  info.output.shape = Shape({inputs[0].shape.elements()});
  return info;
}

}  // namespace pipework
