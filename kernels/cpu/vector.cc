//   fill y = value,  copy y = x,  scale y = a y,  axpy y = y + a x,
//   accumulate y = y + x
//
// Memory-bound: 4, 8, 8, 12 and 12 bytes an element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include <cstring>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {

void FillLoop(const FillArgs& a) {
  ForLanes(a.elements, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Set(d, a.value), d, a.y + i);
  });
}

void ScaleLoop(const ScaleArgs& a) {
  ForLanes(a.elements, [&](auto d, int64_t i) HWY_ATTR {
    const auto y = hn::LoadU(d, a.y + i);
    hn::StoreU(hn::Mul(hn::Set(d, a.a), y), d, a.y + i);
  });
}

// Multiplies and adds with two roundings: a fused one would differ between
// instruction sets.
void AxpyLoop(const AxpyArgs& a) {
  ForLanes(a.elements, [&](auto d, int64_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, a.x + i);
    const auto y = hn::LoadU(d, a.y + i);
    hn::StoreU(hn::Add(y, hn::Mul(hn::Set(d, a.a), x)), d, a.y + i);
  });
}

void AccumulateLoop(const AccumulateArgs& a) {
  ForLanes(a.elements, [&](auto d, int64_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, a.x + i);
    const auto y = hn::LoadU(d, a.y + i);
    hn::StoreU(hn::Add(y, x), d, a.y + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pipework {

HWY_EXPORT(FillLoop);
HWY_EXPORT(ScaleLoop);
HWY_EXPORT(AxpyLoop);
HWY_EXPORT(AccumulateLoop);

absl::Status CpuBackend::Fill(const FillArgs& a) {
  HWY_DYNAMIC_DISPATCH(FillLoop)(a);
  return absl::OkStatus();
}

absl::Status CpuBackend::Copy(const CopyArgs& a) {
  if (a.elements > 0 && a.x != a.y) {
    std::memcpy(a.y, a.x, a.elements * sizeof(float));
  }
  return absl::OkStatus();
}

absl::Status CpuBackend::Scale(const ScaleArgs& a) {
  HWY_DYNAMIC_DISPATCH(ScaleLoop)(a);
  return absl::OkStatus();
}

absl::Status CpuBackend::Axpy(const AxpyArgs& a) {
  HWY_DYNAMIC_DISPATCH(AxpyLoop)(a);
  return absl::OkStatus();
}

absl::Status CpuBackend::Accumulate(const AccumulateArgs& a) {
  HWY_DYNAMIC_DISPATCH(AccumulateLoop)(a);
  return absl::OkStatus();
}

}  // namespace pipework
#endif  // HWY_ONCE
