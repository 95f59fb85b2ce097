//   d = s g + weight_decay w
//   m = m + (1 - beta1) (d - m),   v = beta2 v + (1 - beta2) d d
//   new w = w - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// Memory-bound: 28 bytes an element. No fused multiply-add: the same bits on
// every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adam.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {

void AdamLoop(const AdamArgs& a) {
  const double t = static_cast<double>(a.step);
  const auto rate1 = static_cast<float>(1 - a.beta1);
  const auto beta2 = static_cast<float>(a.beta2);
  const auto rate2 = static_cast<float>(1 - a.beta2);
  const auto epsilon = static_cast<float>(a.epsilon);
  const auto step_size = static_cast<float>(a.lr / (1 - std::pow(a.beta1, t)));
  const auto root_correction =
      static_cast<float>(std::sqrt(1 - std::pow(a.beta2, t)));
  ForLanes(a.elements, [&](auto tag, int64_t i) HWY_ATTR {
    const auto w = hn::LoadU(tag, a.w + i);
    const auto g = hn::LoadU(tag, a.g + i);
    auto d = hn::Mul(hn::Set(tag, a.gradient_scale), g);
    d = hn::Add(d, hn::Mul(hn::Set(tag, a.weight_decay), w));
    auto m = hn::LoadU(tag, a.m + i);
    m = hn::Add(m, hn::Mul(hn::Set(tag, rate1), hn::Sub(d, m)));
    auto v = hn::LoadU(tag, a.v + i);
    v = hn::Add(hn::Mul(hn::Set(tag, beta2), v),
                hn::Mul(hn::Set(tag, rate2), hn::Mul(d, d)));
    hn::StoreU(m, tag, a.m + i);
    hn::StoreU(v, tag, a.v + i);
    const auto root = hn::Div(hn::Sqrt(v), hn::Set(tag, root_correction));
    const auto divisor = hn::Add(root, hn::Set(tag, epsilon));
    const auto step = hn::Mul(hn::Set(tag, step_size), hn::Div(m, divisor));
    hn::StoreU(hn::Sub(w, step), tag, a.out + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pipework {

HWY_EXPORT(AdamLoop);

absl::Status CpuBackend::Adam(const AdamArgs& a) {
  HWY_DYNAMIC_DISPATCH(AdamLoop)(a);
  return absl::OkStatus();
}

}  // namespace pipework
#endif  // HWY_ONCE
