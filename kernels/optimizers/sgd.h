// Stochastic gradient descent, with momentum, Nesterov momentum and weight
// decay as PyTorch's SGD; kernels/ops/sgd.h has the formula. State: momentum,
// where the momentum is above 0.
#ifndef PIPEWORK_KERNELS_OPTIMIZERS_SGD_H_
#define PIPEWORK_KERNELS_OPTIMIZERS_SGD_H_

#include "kernels/optimizers/optimizer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<Optimizer>> MakeSgd(
    const v1::OptimizerSpec& spec);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPTIMIZERS_SGD_H_
