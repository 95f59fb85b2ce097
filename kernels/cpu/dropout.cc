//   word(s, e) = Philox4x32((e / 4, first_sample + s, minibatch), key)[e mod 4]
//   y = word's upper 24 bits / 2^24 >= p ? x / (1 - p) : 0
//
// One lane computes one block of four words. Compute-bound: some 60 integer
// operations a block.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include <algorithm>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/random.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {

using Words = hn::ScalableTag<uint32_t>;

#if HWY_TARGET == HWY_SCALAR
// Has no operations between neighbouring lanes.
HWY_INLINE void DrawWords(uint32_t block, const DropoutArgs& a, uint32_t sample,
                          uint32_t* words) {
  const auto minibatch = static_cast<uint64_t>(a.minibatch);
  const auto drawn =
      Philox4x32({block, sample, static_cast<uint32_t>(minibatch),
                  static_cast<uint32_t>(minibatch >> 32)},
                 a.key);
  std::copy(drawn.begin(), drawn.end(), words);
}
#else
using V = hn::Vec<Words>;

// Both halves of the 64-bit products a * b, lane by lane.
HWY_INLINE void MultiplyWide(V a, V b, V* high, V* low) {
  const hn::Repartition<uint64_t, Words> pairs;
  const Words d;
  const auto even = hn::MulEven(a, b);
  const auto odd =
      hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(pairs, a))),
                  hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(pairs, b))));
  *low =
      hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  *high = hn::OddEven(hn::BitCast(d, odd),
                      hn::BitCast(d, hn::ShiftRight<32>(even)));
}

// Writes the words of Lanes() blocks from `block` on.
HWY_INLINE void DrawWords(uint32_t block, const DropoutArgs& a, uint32_t sample,
                          uint32_t* words) {
  const Words d;
  const auto minibatch = static_cast<uint64_t>(a.minibatch);
  V c0 = hn::Iota(d, block);
  V c1 = hn::Set(d, sample);
  V c2 = hn::Set(d, static_cast<uint32_t>(minibatch));
  V c3 = hn::Set(d, static_cast<uint32_t>(minibatch >> 32));
  auto k0 = static_cast<uint32_t>(a.key);
  auto k1 = static_cast<uint32_t>(a.key >> 32);
  const V m0 = hn::Set(d, 0xD2511F53u);
  const V m1 = hn::Set(d, 0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    V high0, low0, high1, low1;
    MultiplyWide(m0, c0, &high0, &low0);
    MultiplyWide(m1, c2, &high1, &low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, d, words);
}
#endif  // HWY_TARGET == HWY_SCALAR

void DropoutLoop(const DropoutArgs& a) {
  const uint32_t threshold = DropoutThreshold(a.p);
  const float scale = DropoutScale(a.p);
  const auto blocks = static_cast<int64_t>(hn::Lanes(Words()));
  HWY_ALIGN uint32_t words[4 * hn::MaxLanes(Words())];
  for (int64_t s = 0; s < a.samples; ++s) {
    const auto sample = static_cast<uint32_t>(a.first_sample + s);
    for (int64_t e = 0; e < a.elements; e += 4 * blocks) {
      DrawWords(static_cast<uint32_t>(e / 4), a, sample, words);
      const float* x = a.x + s * a.elements + e;
      float* y = a.y + s * a.elements + e;
      ForLanes(std::min(4 * blocks, a.elements - e), [&](auto d,
                                                         int64_t i) HWY_ATTR {
        // 24 bits fit a float exactly, and a signed comparison.
        const hn::RebindToSigned<decltype(d)> di;
        const hn::RebindToUnsigned<decltype(d)> du;
        const auto word = hn::LoadU(du, words + i);
        const auto drawn = hn::BitCast(di, hn::ShiftRight<8>(word));
        const auto limit = hn::Set(di, static_cast<int32_t>(threshold));
        const auto drop = hn::RebindMask(d, hn::Lt(drawn, limit));
        const auto kept = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
        hn::StoreU(hn::IfThenZeroElse(drop, kept), d, y + i);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pipework {

HWY_EXPORT(DropoutLoop);

absl::Status CpuBackend::Dropout(const DropoutArgs& a) {
  HWY_DYNAMIC_DISPATCH(DropoutLoop)(a);
  return absl::OkStatus();
}

}  // namespace pipework
#endif  // HWY_ONCE
