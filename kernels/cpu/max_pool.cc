//   y[n,c,p,q] = max of x over the window,   dx = dy at the maxima
//
// Windows inside the image, which are nearly all, are walked without bounds.
// Some two operations for each position of a window.
#include "kernels/ops/max_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_backend.h"

namespace pipework {
namespace {

struct Best {
  float value;
  int64_t index;
};

// The maximum of x over rows k0..k1-1 and columns l0..l1-1 of the window whose
// first position is `first`.
inline Best MaxOf(const float* x, int64_t first, int64_t row_step,
                  int64_t column_step, int64_t k0, int64_t k1, int64_t l0,
                  int64_t l1) {
  Best best{-std::numeric_limits<float>::infinity(), -1};
  for (int64_t k = k0; k < k1; ++k) {
    for (int64_t l = l0; l < l1; ++l) {
      const int64_t index = first + k * row_step + l * column_step;
      const float value = x[index];
      // Not (value <= best) is true for a NaN; a NaN then stays, since nothing
      // is above it and it is no NaN that comes first.
      const bool take = !(value <= best.value) & (best.value == best.value);
      best.value = take ? value : best.value;
      best.index = take | (best.index < 0) ? index : best.index;
    }
  }
  return best;
}

// Window positions of one axis that lie inside the image.
struct Range {
  int64_t begin, end;
};
inline Range Inside(int64_t start, int64_t kernel, int64_t dilation,
                    int64_t size) {
  Range range{0, kernel};
  if (start < 0) range.begin = (-start + dilation - 1) / dilation;
  if (start + (kernel - 1) * dilation >= size) {
    range.end = std::max(range.begin, (size - start + dilation - 1) / dilation);
  }
  return range;
}

}  // namespace

absl::Status CpuBackend::MaxPoolForward(const MaxPoolForwardArgs& a) {
  const MaxPoolShape& s = a.shape;
  const Window2d& w = s.window;
  const int64_t out_h = s.OutHeight();
  const int64_t out_w = s.OutWidth();
  const int64_t row_step = w.dilation_h * s.width;
  const bool pairs = w.kernel_h == 2 && w.kernel_w == 2 && w.padding_h == 0 &&
                     w.padding_w == 0;
  int64_t i = 0;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    const float* x = a.x + plane * s.height * s.width;
    for (int64_t p = 0; p < out_h; ++p) {
      const int64_t h = p * w.stride_h - w.padding_h;
      const Range k = Inside(h, w.kernel_h, w.dilation_h, s.height);
      for (int64_t q = 0; q < out_w; ++q, ++i) {
        const int64_t v = q * w.stride_w - w.padding_w;
        Best best;
        if (pairs) {
          best = MaxOf(x, h * s.width + v, row_step, w.dilation_w, 0, 2, 0, 2);
        } else {
          const Range l = Inside(v, w.kernel_w, w.dilation_w, s.width);
          best = MaxOf(x, h * s.width + v, row_step, w.dilation_w, k.begin,
                       k.end, l.begin, l.end);
        }
        a.y[i] = best.value;
        if (a.argmax != nullptr) {
          a.argmax[i] = static_cast<int32_t>(best.index);
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CpuBackend::MaxPoolBackward(const MaxPoolBackwardArgs& a) {
  const MaxPoolShape& s = a.shape;
  const int64_t in = s.height * s.width;
  const int64_t out = s.OutHeight() * s.OutWidth();
  const int64_t planes = s.batch * s.channels;
  if (planes == 0) return absl::OkStatus();
  std::memset(a.dx, 0, planes * in * sizeof(float));
  for (int64_t plane = 0; plane < planes; ++plane) {
    float* dx = a.dx + plane * in;
    const float* dy = a.dy + plane * out;
    const int32_t* argmax = a.argmax + plane * out;
    for (int64_t i = 0; i < out; ++i) {
      if (argmax[i] >= 0) dx[argmax[i]] += dy[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
