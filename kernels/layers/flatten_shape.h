// All dimensions of a sample as one. No arguments, no work.
#ifndef PIPEWORK_KERNELS_LAYERS_FLATTEN_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_FLATTEN_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {

absl::StatusOr<LayerInfo> InferFlatten(const v1::Layer& layer,
                                       absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_FLATTEN_SHAPE_H_
