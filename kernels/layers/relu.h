// Rectifier, running half. Keeps its output, which the next layer has anyway.
// relu_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_RELU_H_
#define PIPEWORK_KERNELS_LAYERS_RELU_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeRelu(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_RELU_H_
