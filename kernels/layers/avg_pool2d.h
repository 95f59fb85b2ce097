// Average pooling, running half. Keeps nothing.
// avg_pool2d_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_AVG_POOL2D_H_
#define PIPEWORK_KERNELS_LAYERS_AVG_POOL2D_H_

#include "kernels/layers/avg_pool2d_shape.h"
#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

// For windows that are already known.
std::unique_ptr<LayerBody> MakeAvgPool2d(const AvgPool2dSpec& spec,
                                         const Shape& sample, Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_AVG_POOL2D_H_
