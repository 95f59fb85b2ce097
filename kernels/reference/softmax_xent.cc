//   p[r,c] = exp(x[r,c]) / sum over k of exp(x[r,k])
//   loss   = sum over r of -log p[r,label[r]],   dx[r,c] = p[r,c] - (c ==
//   label)
//
// The largest x of a row is taken off first, so that exp cannot overflow.
#include "kernels/ops/softmax_xent.h"

#include <cmath>

#include "kernels/reference/reference_backend.h"
#include "proto/status_macros.h"

namespace pipework {

absl::Status ReferenceBackend::SoftmaxXentForward(
    const SoftmaxXentForwardArgs& a) {
  RETURN_IF_ERROR(CheckLabels(a.labels, a.rows, a.classes));
  double loss = 0;
  int64_t right = 0;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.classes;
    int64_t largest = 0;
    for (int64_t c = 1; c < a.classes; ++c) {
      if (x[c] > x[largest]) largest = c;
    }
    double sum = 0;
    for (int64_t c = 0; c < a.classes; ++c) {
      sum += std::exp(double{x[c]} - double{x[largest]});
    }
    if (a.p != nullptr) {
      for (int64_t c = 0; c < a.classes; ++c) {
        a.p[r * a.classes + c] = static_cast<float>(
            std::exp(double{x[c]} - double{x[largest]}) / sum);
      }
    }
    const int32_t label = a.labels[r];
    loss += std::log(sum) - (double{x[label]} - double{x[largest]});
    right += largest == label ? 1 : 0;
  }
  a.result[0] = static_cast<float>(loss);
  a.result[1] = static_cast<float>(right);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::SoftmaxXentBackward(
    const SoftmaxXentBackwardArgs& a) {
  RETURN_IF_ERROR(CheckLabels(a.labels, a.rows, a.classes));
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.classes; ++c) {
      const int64_t i = r * a.classes + c;
      a.dx[i] = a.p[i] - (c == a.labels[r] ? 1.0f : 0.0f);
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
