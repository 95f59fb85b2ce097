// Sum of two tensors of one shape, element by element: y = a + b. Its backward
// hands dy on to both.
//
// f32. y may be a or b. Exact: every back end gives the same bits.
#ifndef PIPEWORK_KERNELS_OPS_ADD_H_
#define PIPEWORK_KERNELS_OPS_ADD_H_

#include <cstdint>

namespace pipework {

struct AddArgs {
  int64_t elements = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_ADD_H_
