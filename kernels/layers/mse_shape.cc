#include "kernels/layers/mse_shape.h"

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {

absl::StatusOr<int64_t> ReadMse(const v1::Layer& layer,
                                absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  RETURN_IF_ERROR(ArgReader(who, ArgsOf(layer), {}).status());
  if (inputs.size() != 2) {
    return Mismatch(who, "number of inputs", absl::StrCat(inputs.size()), "2",
                    "give inputs: [PREDICTION, y]");
  }
  RETURN_IF_ERROR(CheckInputs(who, inputs.first(1), 1));
  if (inputs[1].dtype != DType::kI32) {
    return Mismatch(who, "type of its labels", DTypeName(inputs[1].dtype),
                    "i32", "its second input is y");
  }
  const int64_t elements = inputs[0].shape.elements();
  if (inputs[1].shape.elements() != elements) {
    return Mismatch(who, "shape of a label", inputs[1].shape.ToString(),
                    absl::StrCat("as many elements as its prediction ",
                                 inputs[0].shape.ToString()));
  }
  return elements;
}

absl::StatusOr<LayerInfo> InferMse(const v1::Layer& layer,
                                   absl::Span<const TensorSpec> inputs) {
  ASSIGN_OR_RETURN(const int64_t elements, ReadMse(layer, inputs));
  LayerInfo info;
  info.is_loss = true;
  info.output.shape = Shape({2});
  info.forward_operations = 3.0 * static_cast<double>(elements);
  info.backward_operations = static_cast<double>(elements);
  info.saves_input = true;
  info.saved_bytes = elements * DTypeBytes(DType::kI32);  // its labels
  return info;
}

}  // namespace pipework
