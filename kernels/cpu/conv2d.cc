// Convolution by oneDNN (conv2d_plans.h). Memory: the blocked copies of x, w
// and y in scratch. Compute-bound: 2 batch out_channels OutHeight OutWidth
// (in_channels / groups) kernel_h kernel_w operations in each direction.
#include "kernels/ops/conv2d.h"

#include "kernels/cpu/cpu_backend.h"
#include "proto/status_macros.h"

namespace pipework {

absl::Status CpuBackend::Conv2dForward(const Conv2dForwardArgs& a) {
  if (a.shape.batch == 0) return absl::OkStatus();
  UseThreads();
  if (conv2d_plans_ == nullptr) conv2d_plans_ = std::make_unique<Conv2dPlans>();
  return conv2d_plans_->Forward(
      a, [this](int64_t bytes) { return Scratch(bytes); });
}

absl::Status CpuBackend::Conv2dBackwardData(const Conv2dBackwardDataArgs& a) {
  if (a.shape.batch == 0) return absl::OkStatus();
  UseThreads();
  if (conv2d_plans_ == nullptr) conv2d_plans_ = std::make_unique<Conv2dPlans>();
  return conv2d_plans_->BackwardData(
      a, [this](int64_t bytes) { return Scratch(bytes); });
}

absl::Status CpuBackend::Conv2dBackwardWeights(
    const Conv2dBackwardWeightsArgs& a) {
  if (a.shape.batch == 0) return absl::OkStatus();
  UseThreads();
  if (conv2d_plans_ == nullptr) conv2d_plans_ = std::make_unique<Conv2dPlans>();
  ASSIGN_OR_RETURN(const Conv2dPlans::Gradients gradients,
                   conv2d_plans_->BackwardWeights(
                       a, [this](int64_t bytes) { return Scratch(bytes); }));
  const Conv2dShape& s = a.shape;
  AccumulateArgs add;
  add.elements = s.out_channels * (s.in_channels / s.groups) *
                 s.window.kernel_h * s.window.kernel_w;
  add.x = gradients.dw;
  add.y = a.dw;
  RETURN_IF_ERROR(Accumulate(add));
  if (a.db == nullptr) return absl::OkStatus();
  add.elements = s.out_channels;
  add.x = gradients.db;
  add.y = a.db;
  return Accumulate(add);
}

}  // namespace pipework
