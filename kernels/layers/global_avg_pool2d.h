// Mean of each channel, running half: avg_pool2d with the whole image as
// window. global_avg_pool2d_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_GLOBAL_AVG_POOL2D_H_
#define PIPEWORK_KERNELS_LAYERS_GLOBAL_AVG_POOL2D_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeGlobalAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_GLOBAL_AVG_POOL2D_H_
