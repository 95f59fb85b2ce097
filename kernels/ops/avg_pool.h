// Average pooling over a two-dimensional window:
//   forward   y[n,c,p,q] = sum of x over the window / (kernel_h kernel_w),
//             padding counting as zeros (PyTorch's count_include_pad)
//   backward  dx[n,c,i]  = sum of dy over the windows with i / the same
//
// A kernel as large as the image is global average pooling. All f32, NCHW.
// Tolerance: 1e-6 of the largest absolute input.
#ifndef PIPEWORK_KERNELS_OPS_AVG_POOL_H_
#define PIPEWORK_KERNELS_OPS_AVG_POOL_H_

#include <cstdint>

#include "kernels/window.h"

namespace pipework {

// REQUIRES: no dilation; padding is at most half the kernel; the window fits.
struct AvgPoolShape {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  Window2d window;

  int64_t OutHeight() const { return window.OutHeight(height); }
  int64_t OutWidth() const { return window.OutWidth(width); }
};

struct AvgPoolForwardArgs {
  AvgPoolShape shape;
  const float* x = nullptr;  // [batch, channels, height, width]
  float* y = nullptr;        // [batch, channels, OutHeight, OutWidth]
};

struct AvgPoolBackwardArgs {
  AvgPoolShape shape;
  const float* dy = nullptr;
  float* dx = nullptr;  // overwritten
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_AVG_POOL_H_
