// The loss of a regression: (prediction - label)^2 / 2, summed; labels are
// whole numbers, and a prediction within 0.5 of its label counts as right.
// Inputs: a prediction and a label with as many elements. No arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_MSE_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_MSE_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {

// Elements of one sample.
absl::StatusOr<int64_t> ReadMse(const v1::Layer& layer,
                                absl::Span<const TensorSpec> inputs);

absl::StatusOr<LayerInfo> InferMse(const v1::Layer& layer,
                                   absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_MSE_SHAPE_H_
