// Largest value of each window of an image, channel by channel.
//   kernel   one number or [height, width]
//   stride   likewise, default: as the kernel
//   padding  likewise, at most half the kernel, default 0; never wins
#ifndef PIPEWORK_KERNELS_LAYERS_MAX_POOL2D_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_MAX_POOL2D_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"
#include "kernels/layers/shape_checks.h"
#include "kernels/window.h"

namespace pipework {

struct MaxPool2dSpec {
  Image image;
  Window2d window;
};
absl::StatusOr<MaxPool2dSpec> ReadMaxPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs);

absl::StatusOr<LayerInfo> InferMaxPool2d(const v1::Layer& layer,
                                         absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_MAX_POOL2D_SHAPE_H_
