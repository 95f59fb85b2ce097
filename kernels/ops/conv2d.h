// Two-dimensional convolution (cross-correlation, as PyTorch's Conv2d):
//   y[n,o,p,q] = b[o] + sum over c, k, l of w[o,c,k,l] x[n,g(o)+c,h,v],
//     h = p stride_h - padding_h + k dilation_h,   v likewise,
//     c = 0..in_channels/groups-1,  g(o) the first input channel of o's group
//   dx, dw (+=), db (+=): its derivatives
//
// All f32; images NCHW, weights OIHW. An empty batch is fine. Tolerance as for
// linear.
#ifndef PIPEWORK_KERNELS_OPS_CONV2D_H_
#define PIPEWORK_KERNELS_OPS_CONV2D_H_

#include <cstdint>

#include "kernels/window.h"

namespace pipework {

// REQUIRES: groups divides both channel counts; the window fits.
struct Conv2dShape {
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_channels = 0;
  int64_t groups = 1;
  Window2d window;

  int64_t OutHeight() const { return window.OutHeight(height); }
  int64_t OutWidth() const { return window.OutWidth(width); }
};

struct Conv2dForwardArgs {
  Conv2dShape shape;
  const float* x = nullptr;  // [batch, in_channels, height, width]
  const float* w = nullptr;  // [out_channels, in_channels/groups, kernel]
  const float* b = nullptr;  // [out_channels]; null: none
  float* y = nullptr;        // [batch, out_channels, OutHeight, OutWidth]
};

struct Conv2dBackwardDataArgs {
  Conv2dShape shape;
  const float* w = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;  // overwritten
};

struct Conv2dBackwardWeightsArgs {
  Conv2dShape shape;
  const float* x = nullptr;
  const float* dy = nullptr;
  float* dw = nullptr;  // added to
  float* db = nullptr;  // added to; null: no bias
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_CONV2D_H_
