//   d = s g + weight_decay w,   v = momentum v + d,
//   d = nesterov ? d + momentum v : v,   new w = w - lr d
#include "kernels/ops/sgd.h"

#include "kernels/reference/reference_backend.h"

namespace pipework {

absl::Status ReferenceBackend::Sgd(const SgdArgs& a) {
  for (int64_t i = 0; i < a.elements; ++i) {
    float d = a.gradient_scale * a.g[i];
    d = d + a.weight_decay * a.w[i];
    if (a.v != nullptr) {
      a.v[i] = a.momentum * a.v[i] + d;
      d = a.nesterov ? d + a.momentum * a.v[i] : a.v[i];
    }
    a.out[i] = a.w[i] - a.lr * d;
  }
  return absl::OkStatus();
}

}  // namespace pipework
