//   y[n,c,p,q] = sum of x over the window / (kernel_h kernel_w)
//   dx[n,c,i]  = sum of dy over the windows with i / (kernel_h kernel_w)
//
// One addition for each position of a window.
#include "kernels/ops/avg_pool.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_backend.h"

namespace pipework {
namespace {

// Positions begin..end-1 of the image that the window at `start` covers.
struct Range {
  int64_t begin, end;
};
inline Range Inside(int64_t start, int64_t kernel, int64_t size) {
  return {std::max<int64_t>(start, 0), std::min(start + kernel, size)};
}

}  // namespace

absl::Status CpuBackend::AvgPoolForward(const AvgPoolForwardArgs& a) {
  const AvgPoolShape& s = a.shape;
  const Window2d& w = s.window;
  const int64_t out_h = s.OutHeight();
  const int64_t out_w = s.OutWidth();
  const double factor = 1.0 / static_cast<double>(w.kernel_h * w.kernel_w);
  int64_t i = 0;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    const float* x = a.x + plane * s.height * s.width;
    for (int64_t p = 0; p < out_h; ++p) {
      const Range rows =
          Inside(p * w.stride_h - w.padding_h, w.kernel_h, s.height);
      for (int64_t q = 0; q < out_w; ++q, ++i) {
        const Range columns =
            Inside(q * w.stride_w - w.padding_w, w.kernel_w, s.width);
        double sum = 0;
        for (int64_t h = rows.begin; h < rows.end; ++h) {
          for (int64_t v = columns.begin; v < columns.end; ++v) {
            sum += x[h * s.width + v];
          }
        }
        a.y[i] = static_cast<float>(sum * factor);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CpuBackend::AvgPoolBackward(const AvgPoolBackwardArgs& a) {
  const AvgPoolShape& s = a.shape;
  const Window2d& w = s.window;
  const int64_t in = s.height * s.width;
  const int64_t out_h = s.OutHeight();
  const int64_t out_w = s.OutWidth();
  const int64_t planes = s.batch * s.channels;
  if (planes == 0) return absl::OkStatus();
  const double factor = 1.0 / static_cast<double>(w.kernel_h * w.kernel_w);
  std::memset(a.dx, 0, planes * in * sizeof(float));
  int64_t i = 0;
  for (int64_t plane = 0; plane < planes; ++plane) {
    float* dx = a.dx + plane * in;
    for (int64_t p = 0; p < out_h; ++p) {
      const Range rows =
          Inside(p * w.stride_h - w.padding_h, w.kernel_h, s.height);
      for (int64_t q = 0; q < out_w; ++q, ++i) {
        const Range columns =
            Inside(q * w.stride_w - w.padding_w, w.kernel_w, s.width);
        const auto share = static_cast<float>(a.dy[i] * factor);
        for (int64_t h = rows.begin; h < rows.end; ++h) {
          for (int64_t v = columns.begin; v < columns.end; ++v) {
            dx[h * s.width + v] += share;
          }
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
