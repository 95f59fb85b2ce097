// Stochastic gradient descent with momentum and L2 penalty (PyTorch's SGD,
// without dampening), s the scale that turns a sum into a mean:
//   d = s g + weight_decay w
//   v = momentum v + d                       (v starts at 0)
//   d = nesterov ? d + momentum v : v        (only with momentum)
//   new w = w - lr d
//
// f32. out may be w. The same rounding steps everywhere: every back end gives
// the same bits.
#ifndef PIPEWORK_KERNELS_OPS_SGD_H_
#define PIPEWORK_KERNELS_OPS_SGD_H_

#include <cstdint>

namespace pipework {

struct SgdArgs {
  int64_t elements = 0;
  float lr = 0;
  float gradient_scale = 1;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
  const float* w = nullptr;
  const float* g = nullptr;
  float* v = nullptr;  // updated; null: momentum is 0
  float* out = nullptr;
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_SGD_H_
