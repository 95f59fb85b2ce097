// Fully connected layer: y = x W^T + b over the last dimension of x.
//   out   features of the output
//   bias  whether b is there, default true
// Parameters: weight [out, in], bias [out], both uniform in +-1/sqrt(in).
#ifndef PIPEWORK_KERNELS_LAYERS_LINEAR_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_LINEAR_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {

struct LinearSpec {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
};
absl::StatusOr<LinearSpec> ReadLinear(const v1::Layer& layer,
                                      absl::Span<const TensorSpec> inputs);

absl::StatusOr<LayerInfo> InferLinear(const v1::Layer& layer,
                                      absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_LINEAR_SHAPE_H_
