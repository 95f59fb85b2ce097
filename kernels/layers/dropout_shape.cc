#include "kernels/layers/dropout_shape.h"

#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr absl::string_view kArgs[] = {"p"};

}  // namespace

absl::StatusOr<double> ReadDropout(const v1::Layer& layer,
                                   absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  ArgReader args(who, ArgsOf(layer), kArgs);
  const double p = args.Real("p", 0.5, 0.0, 1.0);
  RETURN_IF_ERROR(args.status());
  RETURN_IF_ERROR(CheckInputs(who, inputs, 1));
  return p;
}

absl::StatusOr<LayerInfo> InferDropout(const v1::Layer& layer,
                                       absl::Span<const TensorSpec> inputs) {
  RETURN_IF_ERROR(ReadDropout(layer, inputs).status());
  LayerInfo info;
  info.output = inputs[0];
  // The draw of one element is about forty integer operations, and the
  // backward draws again instead of keeping a mask.
  const double elements = static_cast<double>(info.output.shape.elements());
  info.forward_operations = 40 * elements;
  info.backward_operations = 40 * elements;
  return info;
}

}  // namespace pipework
