// Sum of two or more tensors of one shape, element by element: where the
// branches of a residual network meet. No arguments.
#ifndef PIPEWORK_KERNELS_LAYERS_ADD_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_ADD_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {

absl::StatusOr<LayerInfo> InferAdd(const v1::Layer& layer,
                                   absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_ADD_SHAPE_H_
