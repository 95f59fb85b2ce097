//   d = s g + weight_decay w
//   m = m + (1 - beta1) (d - m),   v = beta2 v + (1 - beta2) d d
//   new w = w - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
#include "kernels/ops/adam.h"

#include <cmath>

#include "kernels/reference/reference_backend.h"

namespace pipework {

absl::Status ReferenceBackend::Adam(const AdamArgs& a) {
  const double t = static_cast<double>(a.step);
  const auto rate1 = static_cast<float>(1 - a.beta1);
  const auto beta2 = static_cast<float>(a.beta2);
  const auto rate2 = static_cast<float>(1 - a.beta2);
  const auto epsilon = static_cast<float>(a.epsilon);
  const auto step_size = static_cast<float>(a.lr / (1 - std::pow(a.beta1, t)));
  const auto root_correction =
      static_cast<float>(std::sqrt(1 - std::pow(a.beta2, t)));
  for (int64_t i = 0; i < a.elements; ++i) {
    float d = a.gradient_scale * a.g[i];
    d = d + a.weight_decay * a.w[i];
    a.m[i] = a.m[i] + rate1 * (d - a.m[i]);
    a.v[i] = beta2 * a.v[i] + rate2 * (d * d);
    const float divisor = std::sqrt(a.v[i]) / root_correction + epsilon;
    a.out[i] = a.w[i] - step_size * (a.m[i] / divisor);
  }
  return absl::OkStatus();
}

}  // namespace pipework
