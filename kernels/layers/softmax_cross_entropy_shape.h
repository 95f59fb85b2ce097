// The loss of a classifier: -log softmax(logits)[label], summed.
// Inputs: logits [classes] and one label, or logits [length, classes] and
// labels [length]. No arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_SOFTMAX_CROSS_ENTROPY_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_SOFTMAX_CROSS_ENTROPY_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {

struct SoftmaxCrossEntropySpec {
  int64_t rows = 1;  // of one sample
  int64_t classes = 0;
};
absl::StatusOr<SoftmaxCrossEntropySpec> ReadSoftmaxCrossEntropy(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs);

absl::StatusOr<LayerInfo> InferSoftmaxCrossEntropy(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_SOFTMAX_CROSS_ENTROPY_SHAPE_H_
