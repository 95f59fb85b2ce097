#include "kernels/layers/relu_shape.h"

#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/status_macros.h"

namespace pipework {

absl::StatusOr<LayerInfo> InferRelu(const v1::Layer& layer,
                                    absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  RETURN_IF_ERROR(ArgReader(who, ArgsOf(layer), {}).status());
  RETURN_IF_ERROR(CheckInputs(who, inputs, 1));
  LayerInfo info;
  info.output = inputs[0];
  info.forward_operations = static_cast<double>(info.output.shape.elements());
  info.backward_operations = info.forward_operations;
  info.saves_output = true;
  return info;
}

}  // namespace pipework
