//   loss = sum over i of (x[i] - label[i])^2 / 2,   dx[i] = x[i] - label[i]
//
// Plain loops: a loss has few elements.
#include "kernels/ops/squared_error.h"

#include <cmath>

#include "kernels/cpu/cpu_backend.h"

namespace pipework {

absl::Status CpuBackend::SquaredErrorForward(const SquaredErrorForwardArgs& a) {
  double loss = 0;
  int64_t right = 0;
  for (int64_t i = 0; i < a.elements; ++i) {
    const double error = double{a.x[i]} - a.labels[i];
    loss += error * error / 2;
    right += std::fabs(error) < 0.5 ? 1 : 0;
  }
  a.result[0] = static_cast<float>(loss);
  a.result[1] = static_cast<float>(right);
  return absl::OkStatus();
}

absl::Status CpuBackend::SquaredErrorBackward(
    const SquaredErrorBackwardArgs& a) {
  for (int64_t i = 0; i < a.elements; ++i) {
    a.dx[i] = static_cast<float>(double{a.x[i]} - a.labels[i]);
  }
  return absl::OkStatus();
}

}  // namespace pipework
