// Max pooling over a two-dimensional window:
//   forward   y[n,c,p,q] = max of x over the window; padding never wins; the
//             first of several equal ones counts; a NaN wins over numbers
//   backward  dx[n,c,i] = sum of dy over the windows whose maximum is i
//
// All f32, NCHW. The argmax is the position h * width + v in its own plane.
// Exact: every back end gives the same bits.
#ifndef PIPEWORK_KERNELS_OPS_MAX_POOL_H_
#define PIPEWORK_KERNELS_OPS_MAX_POOL_H_

#include <cstdint>

#include "kernels/window.h"

namespace pipework {

// REQUIRES: padding is at most half the kernel; the window fits.
struct MaxPoolShape {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  Window2d window;

  int64_t OutHeight() const { return window.OutHeight(height); }
  int64_t OutWidth() const { return window.OutWidth(width); }
};

struct MaxPoolForwardArgs {
  MaxPoolShape shape;
  const float* x = nullptr;   // [batch, channels, height, width]
  float* y = nullptr;         // [batch, channels, OutHeight, OutWidth]
  int32_t* argmax = nullptr;  // as y; null: not wanted
};

struct MaxPoolBackwardArgs {
  MaxPoolShape shape;
  const float* dy = nullptr;
  const int32_t* argmax = nullptr;  // of the forward
  float* dx = nullptr;              // overwritten
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_MAX_POOL_H_
