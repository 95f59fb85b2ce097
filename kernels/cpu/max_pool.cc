//   y[n,c,p,q] = max of x over the window,   dx = dy at the maxima
//
// The window that networks use most, 2x2 with stride 2 and no padding, takes
// four outputs at a time. Others go one by one, without bounds checks inside
// the window. Some three operations for each position of a window.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/max_pool.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include <algorithm>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/cpu_backend.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Columns q..q+3 of one output row of 2x2 windows, as long as four are left;
// returns the first column that is not done. `index` is the position of
// rows[0] in its plane.
int64_t MaxPoolPairs(const float* rows, int64_t width, int64_t index,
                     int64_t out_w, float* y, int32_t* argmax) {
  int64_t q = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<int32_t, 4> di;
  using V = hn::Vec<decltype(d)>;
  using Vi = hn::Vec<decltype(di)>;
  for (; q + 4 <= out_w; q += 4) {
    V x[4];
    hn::LoadInterleaved2(d, rows + 2 * q, x[0], x[1]);
    hn::LoadInterleaved2(d, rows + width + 2 * q, x[2], x[3]);
    const auto first = static_cast<int32_t>(index + 2 * q);
    const auto down = static_cast<int32_t>(width);
    const int32_t offsets[4] = {0, 1, down, down + 1};
    const Vi steps = hn::Iota(di, 0);
    const Vi place = hn::Add(hn::Add(steps, steps), hn::Set(di, first));
    V best = x[0];
    Vi best_index = place;
    for (int i = 1; i < 4; ++i) {
      // As MaxOf() below: above the best, or a NaN where the best is none.
      const auto take = hn::AndNot(hn::Le(x[i], best), hn::Eq(best, best));
      best = hn::IfThenElse(take, x[i], best);
      best_index =
          hn::IfThenElse(hn::RebindMask(di, take),
                         hn::Add(place, hn::Set(di, offsets[i])), best_index);
    }
    hn::StoreU(best, d, y + q);
    if (argmax != nullptr) hn::StoreU(best_index, di, argmax + q);
  }
#endif
  return q;
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pipework {

HWY_EXPORT(MaxPoolPairs);

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
  const bool pairs = w.kernel_h == 2 && w.kernel_w == 2 && w.stride_w == 2 &&
                     w.padding_h == 0 && w.padding_w == 0 &&
                     w.dilation_h == 1 && w.dilation_w == 1;
  int64_t i = 0;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    const float* x = a.x + plane * s.height * s.width;
    for (int64_t p = 0; p < out_h; ++p) {
      const int64_t h = p * w.stride_h - w.padding_h;
      const Range k = Inside(h, w.kernel_h, w.dilation_h, s.height);
      int64_t q = 0;
      if (pairs) {
        q = HWY_DYNAMIC_DISPATCH(MaxPoolPairs)(
            x + h * s.width, s.width, h * s.width, out_w, a.y + i,
            a.argmax == nullptr ? nullptr : a.argmax + i);
        i += q;
      }
      for (; q < out_w; ++q, ++i) {
        const int64_t v = q * w.stride_w - w.padding_w;
        const Range l = Inside(v, w.kernel_w, w.dilation_w, s.width);
        const Best best = MaxOf(x, h * s.width + v, row_step, w.dilation_w,
                                k.begin, k.end, l.begin, l.end);
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
#endif  // HWY_ONCE
