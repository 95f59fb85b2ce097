// Sum of branches, running half. Keeps nothing.
// add_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_ADD_H_
#define PIPEWORK_KERNELS_LAYERS_ADD_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeAdd(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_ADD_H_
