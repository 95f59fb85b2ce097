// Two-dimensional convolution of an image [channels, height, width]; a sample
// [height, width] is an image of one channel.
//   out                     channels of the output
//   kernel                  one number or [height, width]
//   stride, dilation        likewise, default 1
//   padding                 likewise, zeros on both sides, default 0
//   groups                  default 1; divides both channel counts
//   bias                    default true
// Parameters: weight [out, in/groups, kernel height, kernel width], bias [out],
// both uniform in +-1/sqrt(in/groups * kernel height * kernel width).
#ifndef PIPEWORK_KERNELS_LAYERS_CONV2D_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_CONV2D_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"
#include "kernels/layers/shape_checks.h"
#include "kernels/window.h"

namespace pipework {

struct Conv2dSpec {
  Image image;
  int64_t out = 0;
  int64_t groups = 1;
  bool bias = true;
  Window2d window;
};
absl::StatusOr<Conv2dSpec> ReadConv2d(const v1::Layer& layer,
                                      absl::Span<const TensorSpec> inputs);

absl::StatusOr<LayerInfo> InferConv2d(const v1::Layer& layer,
                                      absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_CONV2D_SHAPE_H_
