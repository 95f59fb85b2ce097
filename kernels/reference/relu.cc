//   y = x where x > 0, else 0,   dx = dy where y > 0, else 0
#include "kernels/ops/relu.h"

#include <cmath>

#include "kernels/reference/reference_backend.h"

namespace pipework {

absl::Status ReferenceBackend::ReluForward(const ReluForwardArgs& a) {
  for (int64_t i = 0; i < a.elements; ++i) {
    a.y[i] = a.x[i] > 0 || std::isnan(a.x[i]) ? a.x[i] : 0.0f;
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::ReluBackward(const ReluBackwardArgs& a) {
  for (int64_t i = 0; i < a.elements; ++i) {
    a.dx[i] = a.y[i] > 0 ? a.dy[i] : 0.0f;
  }
  return absl::OkStatus();
}

}  // namespace pipework
