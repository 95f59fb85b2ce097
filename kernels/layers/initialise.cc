#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/layers/layer.h"
#include "kernels/random.h"

namespace pipework {

// A counter for each element: element i has its own draw, whatever else is
// initialised, so a stage that holds one layer starts as the whole network
// does.
void Initialise(int64_t seed, absl::string_view layer, const ParamSpec& spec,
                float* values) {
  const int64_t elements = spec.shape.elements();
  if (spec.init != InitKind::kUniform) {
    const float value = spec.init == InitKind::kOnes ? 1.0f : 0.0f;
    for (int64_t i = 0; i < elements; ++i) values[i] = value;
    return;
  }
  const uint64_t key =
      RandomKey(seed, HashName(absl::StrCat(layer, ".", spec.name)));
  // The largest f32 below the bound, should rounding reach the bound itself.
  const float largest = std::nextafter(static_cast<float>(spec.bound), 0.0f);
  for (int64_t i = 0; i < elements; ++i) {
    const auto draw = Philox4x32(
        {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, key);
    const double unit = 2.0 * UnitDouble(draw[0], draw[1]) - 1.0;
    const auto value = static_cast<float>(unit * spec.bound);
    values[i] = value > largest ? largest : value;
  }
}

}  // namespace pipework
