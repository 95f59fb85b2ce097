#include "kernels/layers/softmax_cross_entropy_shape.h"

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "kernels/layers/shape_checks.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {

absl::StatusOr<SoftmaxCrossEntropySpec> ReadSoftmaxCrossEntropy(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  RETURN_IF_ERROR(ArgReader(who, ArgsOf(layer), {}).status());
  if (inputs.size() != 2) {
    return Mismatch(who, "number of inputs", absl::StrCat(inputs.size()), "2",
                    "give inputs: [LOGITS, y]");
  }
  RETURN_IF_ERROR(CheckInputs(who, inputs.first(1), 1));
  const Shape& logits = inputs[0].shape;
  const TensorSpec& labels = inputs[1];
  if (labels.dtype != DType::kI32) {
    return Mismatch(who, "type of its labels", DTypeName(labels.dtype), "i32",
                    "its second input is y");
  }
  if (logits.rank() != 1 && logits.rank() != 2) {
    return Mismatch(who, "shape of its logits", logits.ToString(),
                    "[classes] or [length,classes]",
                    "put a flatten or linear layer before it");
  }
  const Shape wanted = logits.rank() == 1 ? Shape() : Shape({logits.dim(0)});
  if (labels.shape != wanted) {
    return Mismatch(
        who, "shape of a label", labels.shape.ToString(),
        absl::StrCat(wanted.ToString(), " for logits ", logits.ToString()));
  }
  SoftmaxCrossEntropySpec spec;
  spec.rows = wanted.elements();
  spec.classes = logits.dim(logits.rank() - 1);
  return spec;
}

absl::StatusOr<LayerInfo> InferSoftmaxCrossEntropy(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs) {
  ASSIGN_OR_RETURN(const SoftmaxCrossEntropySpec spec,
                   ReadSoftmaxCrossEntropy(layer, inputs));
  LayerInfo info;
  info.is_loss = true;
  info.output.shape = Shape({2});
  const double elements = static_cast<double>(inputs[0].shape.elements());
  info.forward_operations = 5 * elements;
  info.backward_operations = elements;
  info.saved_bytes =
      inputs[0].shape.elements() * DTypeBytes(DType::kF32);  // probabilities
  info.saved_bytes += spec.rows * DTypeBytes(DType::kI32);   // its labels
  return info;
}

}  // namespace pipework
