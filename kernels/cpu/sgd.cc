//   d = s g + weight_decay w,   v = momentum v + d,
//   d = nesterov ? d + momentum v : v,   new w = w - lr d
//
// Memory-bound: 20 bytes an element with momentum, 12 without. No fused
// multiply-add: the same bits on every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sgd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {

void SgdLoop(const SgdArgs& a) {
  ForLanes(a.elements, [&](auto tag, int64_t i) HWY_ATTR {
    const auto w = hn::LoadU(tag, a.w + i);
    const auto g = hn::LoadU(tag, a.g + i);
    auto d = hn::Mul(hn::Set(tag, a.gradient_scale), g);
    d = hn::Add(d, hn::Mul(hn::Set(tag, a.weight_decay), w));
    if (a.v != nullptr) {
      const auto momentum = hn::Set(tag, a.momentum);
      const auto v = hn::Add(hn::Mul(momentum, hn::LoadU(tag, a.v + i)), d);
      hn::StoreU(v, tag, a.v + i);
      d = a.nesterov ? hn::Add(d, hn::Mul(momentum, v)) : v;
    }
    const auto step = hn::Mul(hn::Set(tag, a.lr), d);
    hn::StoreU(hn::Sub(w, step), tag, a.out + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pipework {

HWY_EXPORT(SgdLoop);

absl::Status CpuBackend::Sgd(const SgdArgs& a) {
  HWY_DYNAMIC_DISPATCH(SgdLoop)(a);
  return absl::OkStatus();
}

}  // namespace pipework
#endif  // HWY_ONCE
