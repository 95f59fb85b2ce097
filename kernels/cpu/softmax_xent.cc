//   p[r,c] = exp(x[r,c]) / sum over k of exp(x[r,k])
//   loss   = sum over r of -log p[r,label[r]],   dx[r,c] = p[r,c] - (c ==
//   label)
//
// The largest x of a row is taken off first, so that exp cannot overflow. Sums
// are in double. Compute-bound: one exp an element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax_xent.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include <algorithm>
#include <cmath>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/lanes-inl.h"
#include "proto/status_macros.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {

// e[c] = exp(x[c] - largest)
void ExpRow(const float* x, float largest, int64_t classes, float* e) {
  ForLanes(classes, [&](auto d, int64_t c) HWY_ATTR {
    const auto shifted = hn::Sub(hn::LoadU(d, x + c), hn::Set(d, largest));
    hn::StoreU(hn::Exp(d, shifted), d, e + c);
  });
}

// The first of the largest x; 0 in a row with a NaN.
HWY_INLINE int64_t Largest(const float* x, int64_t classes) {
  const hn::ScalableTag<float> wide;
  const auto lanes = static_cast<int64_t>(hn::Lanes(wide));
  float largest = x[0];
  int64_t c = 0;
  if (classes >= lanes) {
    auto most = hn::LoadU(wide, x);
    for (c = lanes; c + lanes <= classes; c += lanes) {
      most = hn::Max(most, hn::LoadU(wide, x + c));
    }
    largest = hn::GetLane(hn::MaxOfLanes(wide, most));
  }
  for (; c < classes; ++c) largest = std::max(largest, x[c]);
  for (c = 0; c < classes; ++c) {
    if (x[c] == largest) return c;
  }
  return 0;
}

// The sum in double, over lanes and then over what fills no vector.
HWY_INLINE double SumRow(const float* p, int64_t classes) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(wide));
  auto sum = hn::Zero(wide);
  int64_t c = 0;
  for (; c + lanes <= classes; c += lanes) {
    sum = hn::Add(sum, hn::PromoteTo(wide, hn::LoadU(narrow, p + c)));
  }
  double total = hn::GetLane(hn::SumOfLanes(wide, sum));
  for (; c < classes; ++c) total += p[c];
  return total;
}

void SoftmaxXentForwardLoop(const SoftmaxXentForwardArgs& a, float* row) {
  double loss = 0;
  int64_t right = 0;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.classes;
    float* p = a.p == nullptr ? row : a.p + r * a.classes;
    const int64_t largest = Largest(x, a.classes);
    ExpRow(x, x[largest], a.classes, p);
    const double sum = SumRow(p, a.classes);
    if (a.p != nullptr) {
      const auto inverse = static_cast<float>(1 / sum);
      ForLanes(a.classes, [&](auto d, int64_t c) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::LoadU(d, p + c), hn::Set(d, inverse)), d, p + c);
      });
    }
    const int32_t label = a.labels[r];
    loss += std::log(sum) - (double{x[label]} - double{x[largest]});
    right += largest == label ? 1 : 0;
  }
  a.result[0] = static_cast<float>(loss);
  a.result[1] = static_cast<float>(right);
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pipework {

HWY_EXPORT(SoftmaxXentForwardLoop);

absl::Status CpuBackend::SoftmaxXentForward(const SoftmaxXentForwardArgs& a) {
  RETURN_IF_ERROR(CheckLabels(a.labels, a.rows, a.classes));
  char* row = nullptr;
  if (a.p == nullptr) {
    ASSIGN_OR_RETURN(row, Scratch(a.classes * sizeof(float)));
  }
  HWY_DYNAMIC_DISPATCH(SoftmaxXentForwardLoop)
  (a, reinterpret_cast<float*>(row));
  return absl::OkStatus();
}

absl::Status CpuBackend::SoftmaxXentBackward(const SoftmaxXentBackwardArgs& a) {
  RETURN_IF_ERROR(CheckLabels(a.labels, a.rows, a.classes));
  RETURN_IF_ERROR(Copy({a.rows * a.classes, a.p, a.dx}));
  for (int64_t r = 0; r < a.rows; ++r) {
    a.dx[r * a.classes + a.labels[r]] -= 1.0f;
  }
  return absl::OkStatus();
}

}  // namespace pipework
#endif  // HWY_ONCE
