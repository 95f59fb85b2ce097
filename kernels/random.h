// Counter-based random numbers: the same (key, counter) gives the same bits on
// every device, in any order, without state.
#ifndef PIPEWORK_KERNELS_RANDOM_H_
#define PIPEWORK_KERNELS_RANDOM_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace pipework {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011): four 32-bit words for a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   uint64_t key);

// FNV-1a of the bytes; a name's part in a key.
uint64_t HashName(absl::string_view name);

// Key for what `name` draws in a run with `seed`.
uint64_t RandomKey(int64_t seed, uint64_t name_hash);

// Uniform in [0, 1): the upper 24 bits of a word.
inline float UnitFloat(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

// Uniform in [0, 1) with 53 bits, from two words.
inline double UnitDouble(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * (1.0 / 9007199254740992.0);
}

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_RANDOM_H_
