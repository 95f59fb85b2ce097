// Dropout: in training each element becomes 0 with probability p, else
// x / (1 - p); in evaluation y = x.
//   p  from 0 to below 1, default 0.5
#ifndef PIPEWORK_KERNELS_LAYERS_DROPOUT_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_DROPOUT_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {

// The probability p.
absl::StatusOr<double> ReadDropout(const v1::Layer& layer,
                                   absl::Span<const TensorSpec> inputs);

absl::StatusOr<LayerInfo> InferDropout(const v1::Layer& layer,
                                       absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_DROPOUT_SHAPE_H_
