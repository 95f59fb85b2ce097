// Fully connected layer, running half. Keeps its input.
// linear_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_LINEAR_H_
#define PIPEWORK_KERNELS_LAYERS_LINEAR_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeLinear(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_LINEAR_H_
