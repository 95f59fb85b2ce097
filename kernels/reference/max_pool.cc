//   y[n,c,p,q] = max of x over the window,   dx = dy at the maxima
#include "kernels/ops/max_pool.h"

#include <cmath>
#include <limits>

#include "kernels/reference/reference_backend.h"

namespace pipework {

absl::Status ReferenceBackend::MaxPoolForward(const MaxPoolForwardArgs& a) {
  const MaxPoolShape& s = a.shape;
  const Window2d& window = s.window;
  int64_t i = 0;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    const float* x = a.x + plane * s.height * s.width;
    for (int64_t p = 0; p < s.OutHeight(); ++p) {
      for (int64_t q = 0; q < s.OutWidth(); ++q, ++i) {
        float max = -std::numeric_limits<float>::infinity();
        int64_t argmax = -1;
        for (int64_t k = 0; k < window.kernel_h; ++k) {
          for (int64_t l = 0; l < window.kernel_w; ++l) {
            const int64_t h =
                p * window.stride_h - window.padding_h + k * window.dilation_h;
            const int64_t v =
                q * window.stride_w - window.padding_w + l * window.dilation_w;
            if (h < 0 || h >= s.height || v < 0 || v >= s.width) continue;
            const float value = x[h * s.width + v];
            if (argmax < 0 || value > max || std::isnan(value)) {
              max = value;
              argmax = h * s.width + v;
            }
            if (std::isnan(max)) break;
          }
          if (std::isnan(max)) break;
        }
        a.y[i] = max;
        if (a.argmax != nullptr) a.argmax[i] = static_cast<int32_t>(argmax);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::MaxPoolBackward(const MaxPoolBackwardArgs& a) {
  const MaxPoolShape& s = a.shape;
  const int64_t out = s.OutHeight() * s.OutWidth();
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    float* dx = a.dx + plane * s.height * s.width;
    for (int64_t i = 0; i < s.height * s.width; ++i) dx[i] = 0;
    for (int64_t i = 0; i < out; ++i) {
      const int64_t argmax = a.argmax[plane * out + i];
      if (argmax >= 0) dx[argmax] += a.dy[plane * out + i];
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
