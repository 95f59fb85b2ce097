//   y = a + b
//
// Memory-bound: 12 bytes an element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/add.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {

void AddLoop(const AddArgs& args) {
  ForLanes(args.elements, [&](auto d, int64_t i) HWY_ATTR {
    const auto a = hn::LoadU(d, args.a + i);
    const auto b = hn::LoadU(d, args.b + i);
    hn::StoreU(hn::Add(a, b), d, args.y + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pipework {

HWY_EXPORT(AddLoop);

absl::Status CpuBackend::Add(const AddArgs& args) {
  HWY_DYNAMIC_DISPATCH(AddLoop)(args);
  return absl::OkStatus();
}

}  // namespace pipework
#endif  // HWY_ONCE
