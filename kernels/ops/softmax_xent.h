// Softmax and cross-entropy against a class number, summed over rows:
//   forward   p[r,c] = exp(x[r,c]) / sum over k of exp(x[r,k])
//             loss   = sum over r of -log p[r,label[r]]
//             right  = number of rows whose first largest x is at the label
//   backward  dx[r,c] = p[r,c] - (c == label[r])     of the sum, not of a mean
//
// f32 and i32, row-major. Every label is checked before anything is written:
// InvalidArgument names the first bad row. Rows are added in order, in double.
// Tolerance: p 2e-6, the loss 2e-6 of itself plus 2e-6 a row; right is exact.
#ifndef PIPEWORK_KERNELS_OPS_SOFTMAX_XENT_H_
#define PIPEWORK_KERNELS_OPS_SOFTMAX_XENT_H_

#include <cstdint>

#include "absl/status/status.h"

namespace pipework {

struct SoftmaxXentForwardArgs {
  int64_t rows = 0;
  int64_t classes = 0;
  const float* x = nullptr;         // [rows, classes]
  const int32_t* labels = nullptr;  // [rows], each in 0..classes-1
  float* p = nullptr;               // [rows, classes]; null: not wanted
  float* result = nullptr;          // [2]: the loss, the number right
};

struct SoftmaxXentBackwardArgs {
  int64_t rows = 0;
  int64_t classes = 0;
  const float* p = nullptr;  // of the forward
  const int32_t* labels = nullptr;
  float* dx = nullptr;  // [rows, classes], overwritten; may be p
};

// InvalidArgument names the first row whose label is not a class.
absl::Status CheckLabels(const int32_t* labels, int64_t rows, int64_t classes);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_SOFTMAX_XENT_H_
