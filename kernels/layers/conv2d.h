// Two-dimensional convolution, running half. Keeps its input.
// conv2d_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_CONV2D_H_
#define PIPEWORK_KERNELS_LAYERS_CONV2D_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeConv2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_CONV2D_H_
