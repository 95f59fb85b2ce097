//   y[n,c,p,q] = sum of x over the window / (kernel_h kernel_w)
//   dx[n,c,i]  = sum of dy over the windows with i / (kernel_h kernel_w)
#include "kernels/ops/avg_pool.h"

#include <vector>

#include "kernels/reference/reference_backend.h"

namespace pipework {
namespace {

// Calls pair(output, input) for each input inside the image that an output of
// one plane reads.
template <typename Pair>
void Walk(const AvgPoolShape& s, const Pair& pair) {
  const Window2d& window = s.window;
  for (int64_t p = 0; p < s.OutHeight(); ++p) {
    for (int64_t q = 0; q < s.OutWidth(); ++q) {
      for (int64_t k = 0; k < window.kernel_h; ++k) {
        for (int64_t l = 0; l < window.kernel_w; ++l) {
          const int64_t h = p * window.stride_h - window.padding_h + k;
          const int64_t v = q * window.stride_w - window.padding_w + l;
          if (h < 0 || h >= s.height || v < 0 || v >= s.width) continue;
          pair(p * s.OutWidth() + q, h * s.width + v);
        }
      }
    }
  }
}

}  // namespace

absl::Status ReferenceBackend::AvgPoolForward(const AvgPoolForwardArgs& a) {
  const AvgPoolShape& s = a.shape;
  const int64_t out = s.OutHeight() * s.OutWidth();
  const double divisor = s.window.kernel_h * s.window.kernel_w;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    const float* x = a.x + plane * s.height * s.width;
    std::vector<double> sum(out);
    Walk(s, [&](int64_t o, int64_t i) { sum[o] += x[i]; });
    for (int64_t o = 0; o < out; ++o) {
      a.y[plane * out + o] = static_cast<float>(sum[o] / divisor);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::AvgPoolBackward(const AvgPoolBackwardArgs& a) {
  const AvgPoolShape& s = a.shape;
  const int64_t in = s.height * s.width;
  const int64_t out = s.OutHeight() * s.OutWidth();
  const double divisor = s.window.kernel_h * s.window.kernel_w;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    const float* dy = a.dy + plane * out;
    std::vector<double> sum(in);
    Walk(s, [&](int64_t o, int64_t i) { sum[i] += dy[o]; });
    for (int64_t i = 0; i < in; ++i) {
      a.dx[plane * in + i] = static_cast<float>(sum[i] / divisor);
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
