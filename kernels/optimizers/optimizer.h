// Update rules. An optimizer holds no tensors: its state comes with the call.
#ifndef PIPEWORK_KERNELS_OPTIMIZERS_OPTIMIZER_H_
#define PIPEWORK_KERNELS_OPTIMIZERS_OPTIMIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"
#include "proto/job.pb.h"

namespace pipework {

struct UpdateContext {
  double learning_rate = 0;
  int64_t update = 0;         // number of this update on this stage, from 0
  double gradient_scale = 1;  // gradients are sums: 1 / samples of the update
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Names of the state tensors each parameter has, such as {"momentum"} or
  // {"exp_avg", "exp_avg_sq"}; each has the parameter's shape and starts at 0.
  virtual const std::vector<std::string>& state_names() const = 0;

  // new = rule(old, scale * gradient, state). `updated[i]` may be the same
  // buffer as `weights[i]`; both ways give the same bits. `state` is ordered
  // parameter by parameter, state_names() within.
  virtual absl::Status Update(Backend& backend, const UpdateContext& context,
                              absl::Span<const Tensor> weights,
                              absl::Span<const Tensor> gradients,
                              absl::Span<Tensor> state,
                              absl::Span<Tensor> updated) const = 0;
};

// InvalidArgument: unknown name (lists the known ones) or impossible value. A
// spec of adam that gives none of beta1, beta2 and epsilon gets the defaults of
// job.proto.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
    const v1::OptimizerSpec& spec);

std::vector<std::string> OptimizerNames();

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPTIMIZERS_OPTIMIZER_H_
