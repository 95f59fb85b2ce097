//   y = x where x > 0, else 0,   dx = dy where y > 0, else 0
//
// Memory-bound: 8 bytes an element forward, 12 backward.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/relu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {

void ReluForwardLoop(const ReluForwardArgs& a) {
  ForLanes(a.elements, [&](auto d, int64_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, a.x + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x), d, a.y + i);
  });
}

void ReluBackwardLoop(const ReluBackwardArgs& a) {
  ForLanes(a.elements, [&](auto d, int64_t i) HWY_ATTR {
    const auto y = hn::LoadU(d, a.y + i);
    const auto dy = hn::LoadU(d, a.dy + i);
    hn::StoreU(hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), dy), d, a.dx + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pipework {

HWY_EXPORT(ReluForwardLoop);
HWY_EXPORT(ReluBackwardLoop);

absl::Status CpuBackend::ReluForward(const ReluForwardArgs& a) {
  HWY_DYNAMIC_DISPATCH(ReluForwardLoop)(a);
  return absl::OkStatus();
}

absl::Status CpuBackend::ReluBackward(const ReluBackwardArgs& a) {
  HWY_DYNAMIC_DISPATCH(ReluBackwardLoop)(a);
  return absl::OkStatus();
}

}  // namespace pipework
#endif  // HWY_ONCE
