// Adam (Kingma and Ba, 2015) with L2 penalty, as PyTorch's Adam; s the scale
// that turns a sum into a mean, t the number of this update from 1:
//   d = s g + weight_decay w
//   m = m + (1 - beta1) (d - m)
//   v = beta2 v + (1 - beta2) d d
//   new w = w - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// f32; factors of the formula that are no tensors are computed in double. out
// may be w. The same rounding steps everywhere: every back end gives the same
// bits.
#ifndef PIPEWORK_KERNELS_OPS_ADAM_H_
#define PIPEWORK_KERNELS_OPS_ADAM_H_

#include <cstdint>

namespace pipework {

// REQUIRES: step >= 1; 0 <= beta1, beta2 < 1.
struct AdamArgs {
  int64_t elements = 0;
  double lr = 0;
  float gradient_scale = 1;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  float weight_decay = 0;
  int64_t step = 1;
  const float* w = nullptr;
  const float* g = nullptr;
  float* m = nullptr;  // updated
  float* v = nullptr;  // updated
  float* out = nullptr;
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_ADAM_H_
