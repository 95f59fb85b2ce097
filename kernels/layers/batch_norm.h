// Batch normalisation, running half. Keeps its input and each mean and
// 1/deviation. batch_norm_shape.h has its arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_BATCH_NORM_H_
#define PIPEWORK_KERNELS_LAYERS_BATCH_NORM_H_

#include "kernels/layers/layer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeBatchNorm(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_BATCH_NORM_H_
