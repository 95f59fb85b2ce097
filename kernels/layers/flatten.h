// Flatten, running half: another shape on the same buffer.
// flatten_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_FLATTEN_H_
#define PIPEWORK_KERNELS_LAYERS_FLATTEN_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeFlatten(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_FLATTEN_H_
