// Batch normalisation: over the batch for features [F], over batch and space
// for images [C, H, W].
//   eps       added to the variance, default 1e-5
//   momentum  share of the new value in the running statistics, default 0.1
// Parameters: weight (ones) and bias (zeros), [F] or [C]. Buffers:
// running_mean (zeros), running_var (ones); not trained, not versioned.
#ifndef PIPEWORK_KERNELS_LAYERS_BATCH_NORM_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_BATCH_NORM_SHAPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {

struct BatchNormSpec {
  int64_t channels = 0;
  int64_t spatial = 1;
  double eps = 1e-5;
  double momentum = 0.1;
};
absl::StatusOr<BatchNormSpec> ReadBatchNorm(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs);

absl::StatusOr<LayerInfo> InferBatchNorm(const v1::Layer& layer,
                                         absl::Span<const TensorSpec> inputs);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_BATCH_NORM_SHAPE_H_
