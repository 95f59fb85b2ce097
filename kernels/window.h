// The sliding window of convolutions and poolings.
#ifndef PIPEWORK_KERNELS_WINDOW_H_
#define PIPEWORK_KERNELS_WINDOW_H_

#include <cstdint>

namespace pipework {

// Along each of the two axes: output o reads input positions
//   o * stride - padding + k * dilation,   k = 0..kernel-1,
// those outside the image being padding.
struct Window2d {
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t padding_h = 0, padding_w = 0;  // on both sides
  int64_t dilation_h = 1, dilation_w = 1;

  // Rows (columns) of the output; 0 or less: the window does not fit.
  int64_t OutHeight(int64_t height) const {
    return Out(height, kernel_h, stride_h, padding_h, dilation_h);
  }
  int64_t OutWidth(int64_t width) const {
    return Out(width, kernel_w, stride_w, padding_w, dilation_w);
  }

 private:
  static int64_t Out(int64_t size, int64_t kernel, int64_t stride,
                     int64_t padding, int64_t dilation) {
    const int64_t room = size + 2 * padding - (dilation * (kernel - 1) + 1);
    return room < 0 ? 0 : room / stride + 1;
  }
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_WINDOW_H_
