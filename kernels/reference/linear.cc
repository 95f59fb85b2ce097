//   y[r,o]  = b[o] + sum over i of x[r,i] w[o,i]
//   dx[r,i] = sum over o of dy[r,o] w[o,i]
//   dw[o,i] += sum over r of dy[r,o] x[r,i],   db[o] += sum over r of dy[r,o]
#include "kernels/ops/linear.h"

#include "kernels/reference/reference_backend.h"

namespace pipework {

absl::Status ReferenceBackend::LinearForward(const LinearForwardArgs& a) {
  const auto [rows, in, out] = a.shape;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = a.b == nullptr ? 0.0 : a.b[o];
      for (int64_t i = 0; i < in; ++i) {
        sum += double{a.x[r * in + i]} * double{a.w[o * in + i]};
      }
      a.y[r * out + o] = static_cast<float>(sum);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::LinearBackwardData(
    const LinearBackwardDataArgs& a) {
  const auto [rows, in, out] = a.shape;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < out; ++o) {
        sum += double{a.dy[r * out + o]} * double{a.w[o * in + i]};
      }
      a.dx[r * in + i] = static_cast<float>(sum);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::LinearBackwardWeights(
    const LinearBackwardWeightsArgs& a) {
  const auto [rows, in, out] = a.shape;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) {
        sum += double{a.dy[r * out + o]} * double{a.x[r * in + i]};
      }
      a.dw[o * in + i] = static_cast<float>(a.dw[o * in + i] + sum);
    }
    if (a.db == nullptr) continue;
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += a.dy[r * out + o];
    a.db[o] = static_cast<float>(a.db[o] + sum);
  }
  return absl::OkStatus();
}

}  // namespace pipework
