#include "kernels/layers/batch_norm_shape.h"

#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr absl::string_view kArgs[] = {"eps", "momentum"};

}  // namespace

absl::StatusOr<BatchNormSpec> ReadBatchNorm(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  ArgReader args(who, ArgsOf(layer), kArgs);
  BatchNormSpec spec;
  // A smaller eps is 0 against any variance in f32, and divides by it.
  spec.eps = args.Real("eps", 1e-5, 1e-12, 1.0);
  spec.momentum = args.Real("momentum", 0.1, 0.0, 1.0 + 1e-9);
  RETURN_IF_ERROR(args.status());
  RETURN_IF_ERROR(CheckInputs(who, inputs, 1));
  const Shape& x = inputs[0].shape;
  if (x.rank() != 1 && x.rank() != 3) {
    return Mismatch(who, "shape of its input", x.ToString(),
                    "[features] or [channels,height,width]");
  }
  spec.channels = x.dim(0);
  if (x.rank() == 3) spec.spatial = x.dim(1) * x.dim(2);
  return spec;
}

absl::StatusOr<LayerInfo> InferBatchNorm(const v1::Layer& layer,
                                         absl::Span<const TensorSpec> inputs) {
  ASSIGN_OR_RETURN(const BatchNormSpec spec, ReadBatchNorm(layer, inputs));
  LayerInfo info;
  info.output = inputs[0];
  const Shape channels({spec.channels});
  info.params = {{"weight", channels, InitKind::kOnes},
                 {"bias", channels, InitKind::kZeros}};
  info.buffers = {{"running_mean", channels, InitKind::kZeros},
                  {"running_var", channels, InitKind::kOnes}};
  const double elements = static_cast<double>(info.output.shape.elements());
  info.forward_operations = 7 * elements;
  info.backward_operations = 9 * elements;
  info.saves_input = true;
  // Mean and 1/deviation of each channel, whatever the number of samples.
  info.saved_bytes_per_unit = 2 * spec.channels * DTypeBytes(DType::kF32);
  return info;
}

}  // namespace pipework
