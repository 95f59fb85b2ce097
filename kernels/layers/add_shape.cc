#include "kernels/layers/add_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {

absl::StatusOr<LayerInfo> InferAdd(const v1::Layer& layer,
                                   absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  RETURN_IF_ERROR(ArgReader(who, ArgsOf(layer), {}).status());
  if (inputs.size() < 2) {
    return Mismatch(who, "number of inputs", absl::StrCat(inputs.size()),
                    "2 or more", "give inputs: [A, B]");
  }
  RETURN_IF_ERROR(CheckInputs(who, inputs, inputs.size()));
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].shape != inputs[0].shape) {
      return Mismatch(
          who, absl::StrCat("shape of input ", i), inputs[i].shape.ToString(),
          absl::StrCat(inputs[0].shape.ToString(), ", the shape of input 0"));
    }
  }
  LayerInfo info;
  info.output = inputs[0];
  info.forward_operations = static_cast<double>(inputs.size() - 1) *
                            static_cast<double>(inputs[0].shape.elements());
  return info;
}

}  // namespace pipework
