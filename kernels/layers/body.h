// What the bodies of several layers share.
#ifndef PIPEWORK_KERNELS_LAYERS_BODY_H_
#define PIPEWORK_KERNELS_LAYERS_BODY_H_

#include <utility>

#include "kernels/backend.h"
#include "kernels/layers/layer.h"
#include "kernels/tensor.h"
#include "proto/check.h"
#include "proto/status_macros.h"

namespace pipework {

// An uninitialised f32 activation or gradient of one.
inline absl::StatusOr<Tensor> NewActivation(Backend& backend, Shape shape) {
  return Tensor::Allocate(*backend.allocator(), std::move(shape), DType::kF32,
                          MemoryUse::kActivations);
}

// Samples in `x`. A tensor of another shape than the layer was made for is a
// bug of the caller: what comes from outside was checked when it came in.
inline int64_t BatchOf(const Tensor& x, const Shape& sample) {
  PIPE_CHECK(x.shape().rank() == sample.rank() + 1);
  const int64_t batch = x.shape().dim(0);
  PIPE_CHECK(x.shape() == sample.WithBatch(batch));
  return batch;
}

// Where a forward puts what its backward needs: nowhere in evaluation.
inline Saved* Keeps(const StepContext& context, Saved* saved) {
  return context.training ? saved : nullptr;
}

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_BODY_H_
