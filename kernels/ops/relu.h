// Rectifier:
//   forward   y  = x where x > 0, else 0; a NaN stays one
//   backward  dx = dy where y > 0, else 0
//
// f32. y may be x, and dx may be dy. Exact: every back end gives the same bits.
#ifndef PIPEWORK_KERNELS_OPS_RELU_H_
#define PIPEWORK_KERNELS_OPS_RELU_H_

#include <cstdint>

namespace pipework {

struct ReluForwardArgs {
  int64_t elements = 0;
  const float* x = nullptr;
  float* y = nullptr;
};

struct ReluBackwardArgs {
  int64_t elements = 0;
  const float* y = nullptr;  // the forward's output
  const float* dy = nullptr;
  float* dx = nullptr;  // overwritten
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_RELU_H_
