// Loss of a classifier, running half. Keeps the probabilities and the labels.
// softmax_cross_entropy_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_SOFTMAX_CROSS_ENTROPY_H_
#define PIPEWORK_KERNELS_LAYERS_SOFTMAX_CROSS_ENTROPY_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeSoftmaxCrossEntropy(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_SOFTMAX_CROSS_ENTROPY_H_
