// Dropout with a counter-based mask, so that the backward draws the mask again
// instead of keeping it, and every back end, partition and order of work draws
// the same one:
//   word(s, e) = Philox4x32(counter = (e / 4, first_sample + s,
//                                      minibatch's two halves), key)[e mod 4]
//   keep(s, e) = word(s, e) / 2^32 >= p    (upper 24 bits)
//   forward    y  = keep ? x / (1 - p) : 0
//   backward   dx = keep ? dy / (1 - p) : 0: the same op on dy
//
// f32. y may be x. Exact: every back end gives the same bits.
#ifndef PIPEWORK_KERNELS_OPS_DROPOUT_H_
#define PIPEWORK_KERNELS_OPS_DROPOUT_H_

#include <cstdint>

namespace pipework {

// REQUIRES: 0 <= p < 1; elements < 2^34; samples are numbered below 2^32.
struct DropoutArgs {
  int64_t samples = 0;
  int64_t elements = 0;  // of one sample
  float p = 0;           // probability of dropping
  uint64_t key = 0;      // RandomKey(seed, HashName(layer))
  int64_t minibatch = 0;
  int64_t first_sample = 0;  // of this unit, within the minibatch
  const float* x = nullptr;  // [samples, elements]
  float* y = nullptr;        // [samples, elements]
};

// An element is kept when the upper 24 bits of its word reach this.
inline uint32_t DropoutThreshold(float p) {
  const double scaled = static_cast<double>(p) * 16777216.0;
  const auto floor = static_cast<uint32_t>(scaled);
  return floor + (static_cast<double>(floor) < scaled ? 1 : 0);
}

// What a kept element is multiplied by.
inline float DropoutScale(float p) {
  return static_cast<float>(1.0 / (1.0 - static_cast<double>(p)));
}

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_DROPOUT_H_
