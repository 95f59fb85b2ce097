#include "kernels/layers/linear_shape.h"

#include <cmath>

#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr absl::string_view kArgs[] = {"out", "bias"};

}  // namespace

absl::StatusOr<LinearSpec> ReadLinear(const v1::Layer& layer,
                                      absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  ArgReader args(who, ArgsOf(layer), kArgs);
  LinearSpec spec;
  spec.out = args.RequiredInt("out");
  spec.bias = args.Bool("bias", true);
  RETURN_IF_ERROR(args.status());
  RETURN_IF_ERROR(CheckInputs(who, inputs, 1));
  const Shape& x = inputs[0].shape;
  if (x.rank() == 0) {
    return Mismatch(who, "shape of its input", x.ToString(),
                    "at least one dimension");
  }
  spec.in = x.dim(x.rank() - 1);
  return spec;
}

absl::StatusOr<LayerInfo> InferLinear(const v1::Layer& layer,
                                      absl::Span<const TensorSpec> inputs) {
  ASSIGN_OR_RETURN(const LinearSpec spec, ReadLinear(layer, inputs));
  const std::string who = LayerWho(layer);

  LayerInfo info;
  std::vector<int64_t> dims = inputs[0].shape.dims();
  dims.back() = spec.out;
  info.output.shape = Shape(std::move(dims));
  RETURN_IF_ERROR(CheckShape(who, "shape of its output", info.output.shape));

  const double bound = 1.0 / std::sqrt(static_cast<double>(spec.in));
  info.params.push_back(
      {"weight", Shape({spec.out, spec.in}), InitKind::kUniform, bound});
  if (spec.bias) {
    info.params.push_back(
        {"bias", Shape({spec.out}), InitKind::kUniform, bound});
  }
  RETURN_IF_ERROR(CheckShape(who, "shape of weight", info.params[0].shape));

  const double outputs = static_cast<double>(info.output.shape.elements());
  const double products = outputs * static_cast<double>(spec.in);
  info.forward_operations = 2 * products + (spec.bias ? outputs : 0);
  info.backward_operations = 4 * products + (spec.bias ? outputs : 0);
  info.saves_input = true;
  return info;
}

}  // namespace pipework
