// Half the squared error, running half. Keeps its two inputs.
// mse_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_MSE_H_
#define PIPEWORK_KERNELS_LAYERS_MSE_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeMse(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_MSE_H_
