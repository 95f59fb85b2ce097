// Dropout, running half. Keeps nothing: the backward draws the mask again.
// dropout_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_DROPOUT_H_
#define PIPEWORK_KERNELS_LAYERS_DROPOUT_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeDropout(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_DROPOUT_H_
