// Loops over vectors of whatever width the target has. Included once for each
// instruction set by the files that Highway compiles several times; hence the
// guard that toggles.
#if defined(PIPEWORK_KERNELS_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PIPEWORK_KERNELS_CPU_LANES_INL_H_
#undef PIPEWORK_KERNELS_CPU_LANES_INL_H_
#else
#define PIPEWORK_KERNELS_CPU_LANES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(tag, i) for whole vectors from index 0 on, then for single
// elements. A body without reductions gives the same bits at every width.
template <typename Body>
HWY_INLINE void ForLanes(int64_t elements, const Body& body) {
  const hn::ScalableTag<float> wide;
  const hn::CappedTag<float, 1> single;
  const auto lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t i = 0;
  for (; i + lanes <= elements; i += lanes) body(wide, i);
  for (; i < elements; ++i) body(single, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#endif  // PIPEWORK_KERNELS_CPU_LANES_INL_H_
