//   word(s, e) = Philox4x32((e / 4, first_sample + s, minibatch), key)[e mod 4]
//   y = word's upper 24 bits / 2^24 >= p ? x / (1 - p) : 0
#include "kernels/ops/dropout.h"

#include "kernels/random.h"
#include "kernels/reference/reference_backend.h"

namespace pipework {

absl::Status ReferenceBackend::Dropout(const DropoutArgs& a) {
  const uint32_t threshold = DropoutThreshold(a.p);
  const float scale = DropoutScale(a.p);
  const auto minibatch = static_cast<uint64_t>(a.minibatch);
  for (int64_t s = 0; s < a.samples; ++s) {
    for (int64_t e = 0; e < a.elements; ++e) {
      const auto words = Philox4x32({static_cast<uint32_t>(e / 4),
                                     static_cast<uint32_t>(a.first_sample + s),
                                     static_cast<uint32_t>(minibatch),
                                     static_cast<uint32_t>(minibatch >> 32)},
                                    a.key);
      const bool keep = words[e % 4] >> 8 >= threshold;
      const int64_t i = s * a.elements + e;
      a.y[i] = keep ? a.x[i] * scale : 0.0f;
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
