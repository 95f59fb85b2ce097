// Batch normalisation over batch and space, channel by channel (PyTorch's
// BatchNorm1d and BatchNorm2d), m = batch * spatial values a channel:
//   training   mean = sum x / m,   variance = sum (x - mean)^2 / m
//              rstd = 1 / sqrt(variance + epsilon)
//              y    = gain (x - mean) rstd + bias
//              running_mean     = (1 - momentum) running_mean + momentum mean
//              running_variance likewise, with variance m / (m - 1)
//   inference  y    = gain (x - running_mean)
//                     / sqrt(running_variance + epsilon) + bias
//   backward   xhat   = (x - mean) rstd
//              dbias += sum dy,   dgain += sum dy xhat
//              dx     = gain rstd (dy - sum dy / m - xhat sum (dy xhat) / m)
//
// All f32, [batch, channels, spatial]. One value a channel (m = 1) is taken:
// y is bias, and the running variance uses 1 for m - 1. Tolerance: 4e-6 of the
// largest absolute value of the result (of the summands for dgain and dbias).
#ifndef PIPEWORK_KERNELS_OPS_BATCH_NORM_H_
#define PIPEWORK_KERNELS_OPS_BATCH_NORM_H_

#include <cstdint>

namespace pipework {

struct BatchNormShape {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t spatial = 1;  // height * width; 1 for feature vectors
};

// REQUIRES: batch and spatial are above 0.
struct BatchNormTrainingArgs {
  BatchNormShape shape;
  float momentum = 0.1f;
  float epsilon = 1e-5f;
  const float* x = nullptr;
  const float* gain = nullptr;        // [channels]; null: ones
  const float* bias = nullptr;        // [channels]; null: zeros
  float* running_mean = nullptr;      // [channels], updated; null: not kept
  float* running_variance = nullptr;  // [channels], updated; null: not kept
  float* y = nullptr;
  float* mean = nullptr;  // [channels], for the backward
  float* rstd = nullptr;  // [channels], for the backward
};

struct BatchNormInferenceArgs {
  BatchNormShape shape;
  float epsilon = 1e-5f;
  const float* x = nullptr;
  const float* gain = nullptr;  // null: ones
  const float* bias = nullptr;  // null: zeros
  const float* running_mean = nullptr;
  const float* running_variance = nullptr;
  float* y = nullptr;  // may be x
};

struct BatchNormBackwardArgs {
  BatchNormShape shape;
  const float* x = nullptr;
  const float* dy = nullptr;
  const float* gain = nullptr;  // null: ones
  const float* mean = nullptr;
  const float* rstd = nullptr;
  float* dx = nullptr;     // overwritten; null: not wanted
  float* dgain = nullptr;  // [channels], added to; null: not wanted
  float* dbias = nullptr;  // [channels], added to; null: not wanted
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_BATCH_NORM_H_
