// Mean of each channel of an image: [channels, height, width] becomes
// [channels, 1, 1]. No arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_GLOBAL_AVG_POOL2D_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_GLOBAL_AVG_POOL2D_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/avg_pool2d_shape.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {

// The average pool whose window is the whole image.
absl::StatusOr<AvgPool2dSpec> ReadGlobalAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs);

absl::StatusOr<LayerInfo> InferGlobalAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_GLOBAL_AVG_POOL2D_SHAPE_H_
