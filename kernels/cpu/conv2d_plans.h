// Convolutions that oneDNN has prepared, by shape.
#ifndef PIPEWORK_KERNELS_CPU_CONV2D_PLANS_H_
#define PIPEWORK_KERNELS_CPU_CONV2D_PLANS_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/conv2d.h"

namespace pipework {

// A convolution takes and gives plain NCHW and OIHW; inside, oneDNN works in
// the blocked layout of its choice, and reorders at both ends. Measured on
// 8x8 to 32x32 images that is two to three times as fast as its plain
// kernels, and faster than a product over unfolded images, except for the
// gradient of an image of very few channels, which stays plain.
//
// Making a plan costs milliseconds, once for each shape and direction.
class Conv2dPlans {
 public:
  // Gives at least that many bytes, 64-byte aligned, valid until the next.
  using ScratchFn = absl::FunctionRef<absl::StatusOr<char*>(int64_t bytes)>;

  Conv2dPlans();
  ~Conv2dPlans();

  // As the ops, but dw and db are overwritten. REQUIRES: batch > 0.
  // Internal: oneDNN refused.
  absl::Status Forward(const Conv2dForwardArgs& args, ScratchFn scratch);
  absl::Status BackwardData(const Conv2dBackwardDataArgs& args,
                            ScratchFn scratch);

  // The gradients lie in the scratch, plain: dw and, with want_bias, db.
  struct Gradients {
    const float* dw = nullptr;
    const float* db = nullptr;
  };
  absl::StatusOr<Gradients> BackwardWeights(
      const Conv2dBackwardWeightsArgs& args, ScratchFn scratch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_CPU_CONV2D_PLANS_H_
