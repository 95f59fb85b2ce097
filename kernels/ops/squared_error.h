// Half the squared error against whole numbers, summed over elements:
//   forward   loss  = sum over i of (x[i] - label[i])^2 / 2
//             right = number of elements with |x[i] - label[i]| < 1/2
//   backward  dx[i] = x[i] - label[i]     of the sum, not of a mean
//
// f32 and i32. Elements are added in double. Tolerance: the loss 1e-6 of
// itself; right and dx are exact.
#ifndef PIPEWORK_KERNELS_OPS_SQUARED_ERROR_H_
#define PIPEWORK_KERNELS_OPS_SQUARED_ERROR_H_

#include <cstdint>

namespace pipework {

struct SquaredErrorForwardArgs {
  int64_t elements = 0;
  const float* x = nullptr;
  const int32_t* labels = nullptr;
  float* result = nullptr;  // [2]: the loss, the number right
};

struct SquaredErrorBackwardArgs {
  int64_t elements = 0;
  const float* x = nullptr;
  const int32_t* labels = nullptr;
  float* dx = nullptr;  // overwritten; may be x
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_SQUARED_ERROR_H_
