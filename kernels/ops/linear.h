// Linear (fully connected):
//   forward   y[r,o]  = b[o] + sum over i of x[r,i] w[o,i]
//   backward  dx[r,i] = sum over o of dy[r,o] w[o,i]
//             dw[o,i] += sum over r of dy[r,o] x[r,i]
//             db[o]   += sum over r of dy[r,o]
//
// All f32, row-major. Leading dimensions of x fold into rows. No row, or no
// feature, is fine. Tolerance against the reference, as a share of the sum of
// the absolute terms: 4e-7 * sqrt(terms) + 4e-7.
#ifndef PIPEWORK_KERNELS_OPS_LINEAR_H_
#define PIPEWORK_KERNELS_OPS_LINEAR_H_

#include <cstdint>

namespace pipework {

struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
};

struct LinearForwardArgs {
  LinearShape shape;
  const float* x = nullptr;  // [rows, in]
  const float* w = nullptr;  // [out, in]
  const float* b = nullptr;  // [out]; null: none
  float* y = nullptr;        // [rows, out]
};

struct LinearBackwardDataArgs {
  LinearShape shape;
  const float* w = nullptr;   // [out, in]
  const float* dy = nullptr;  // [rows, out]
  float* dx = nullptr;        // [rows, in], overwritten
};

struct LinearBackwardWeightsArgs {
  LinearShape shape;
  const float* x = nullptr;   // [rows, in]
  const float* dy = nullptr;  // [rows, out]
  float* dw = nullptr;        // [out, in], added to
  float* db = nullptr;        // [out], added to; null: no bias
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_LINEAR_H_
