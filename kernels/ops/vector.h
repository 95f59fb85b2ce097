// Vector arithmetic on whole buffers, element by element:
//   fill        y  = value
//   copy        y  = x
//   scale       y  = a y
//   axpy        y  = y + a x
//   accumulate  y  = y + x; sums of several sources are taken in the order of
//               the calls, so an all-reduce in replica order has the same bits
//               everywhere
//
// f32. y and x are the same or do not overlap. Exact (two roundings in axpy):
// every back end gives the same bits.
#ifndef PIPEWORK_KERNELS_OPS_VECTOR_H_
#define PIPEWORK_KERNELS_OPS_VECTOR_H_

#include <cstdint>

namespace pipework {

struct FillArgs {
  int64_t elements = 0;
  float value = 0;
  float* y = nullptr;
};

struct CopyArgs {
  int64_t elements = 0;
  const float* x = nullptr;
  float* y = nullptr;
};

struct ScaleArgs {
  int64_t elements = 0;
  float a = 1;
  float* y = nullptr;
};

struct AxpyArgs {
  int64_t elements = 0;
  float a = 1;
  const float* x = nullptr;
  float* y = nullptr;
};

struct AccumulateArgs {
  int64_t elements = 0;
  const float* x = nullptr;
  float* y = nullptr;
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_VECTOR_H_
