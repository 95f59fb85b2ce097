// Mean of each window of an image, channel by channel; padding counts as
// zeros, as PyTorch has it by default.
//   kernel   one number or [height, width]
//   stride   likewise, default: as the kernel
//   padding  likewise, at most half the kernel, default 0
#ifndef PIPEWORK_KERNELS_LAYERS_AVG_POOL2D_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_AVG_POOL2D_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"
#include "kernels/layers/shape_checks.h"
#include "kernels/window.h"

namespace pipework {

struct AvgPool2dSpec {
  Image image;
  Window2d window;
};
absl::StatusOr<AvgPool2dSpec> ReadAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs);

absl::StatusOr<LayerInfo> InferAvgPool2d(const v1::Layer& layer,
                                         absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_AVG_POOL2D_SHAPE_H_
