// Adam with weight decay added to the gradient, as PyTorch's Adam;
// kernels/ops/adam.h has the formula. State: exp_avg, exp_avg_sq.
#ifndef PIPEWORK_KERNELS_OPTIMIZERS_ADAM_H_
#define PIPEWORK_KERNELS_OPTIMIZERS_ADAM_H_

#include "kernels/optimizers/optimizer.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdam(
    const v1::OptimizerSpec& spec);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPTIMIZERS_ADAM_H_
