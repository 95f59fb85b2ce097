// The running half of a layer: forward and backward over a back end's ops.
#ifndef PIPEWORK_KERNELS_LAYERS_LAYER_H_
#define PIPEWORK_KERNELS_LAYERS_LAYER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/layers/layer_shape.h"
#include "kernels/tensor.h"
#include "proto/ids.h"

namespace pipework {

// What randomness is keyed by, beside the layer's name: results do not depend
// on partition, replica, device or order of work.
struct StepContext {
  int64_t seed = 0;
  MinibatchId minibatch;     // numbered through the run
  int64_t first_sample = 0;  // of this unit, within the minibatch
  bool training = true;      // false: evaluation; nothing is saved or changed
};

// What a forward keeps for its backward. Whoever holds it decides how long.
struct Saved {
  TensorList tensors;
};

// One layer on one back end. Has no state of its own but caches: parameters,
// buffers and saved tensors come with each call. One thread at a time.
class LayerBody {
 public:
  virtual ~LayerBody() = default;

  // `params` and `buffers` in LayerInfo's order; buffers may be written when
  // context.training. The output is a new tensor, or a handle on an input's
  // buffer where the values are the same (flatten, dropout in evaluation): so
  // nobody writes into an output. `saved` is null when no backward will come;
  // nothing is kept in evaluation either.
  // InvalidArgument: a label that is no class. ResourceExhausted: no memory.
  virtual absl::StatusOr<Tensor> Forward(const StepContext& context,
                                         absl::Span<const Tensor> inputs,
                                         absl::Span<const Tensor> params,
                                         absl::Span<Tensor> buffers,
                                         Saved* saved) = 0;

  // Adds the parameter gradients of this unit to `param_gradients` (f32,
  // zeroed by the caller at the start of an update) and returns the gradient
  // of each input for which `wanted` is true (an empty Tensor for the others,
  // always so for labels). `output_gradient` is empty for a loss. A returned
  // gradient may be a handle on `output_gradient`'s buffer, twice even (add),
  // so nobody writes into one: to sum two gradients take a new tensor.
  // The result and the order of additions depend on the arguments alone.
  virtual absl::StatusOr<TensorList> Backward(
      const StepContext& context, const Saved& saved,
      absl::Span<const Tensor> params, const Tensor& output_gradient,
      absl::Span<const bool> wanted, absl::Span<Tensor> param_gradients) = 0;
};

// Builds the body of `layer`. `inputs` are per-sample specs, as InferLayer
// takes them. REQUIRES: InferLayer(layer, inputs) is OK; `backend` outlives
// the body.
absl::StatusOr<std::unique_ptr<LayerBody>> MakeLayer(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend);

// Fills a parameter or buffer with its initial values, keyed by (seed, layer
// name, parameter name, element) and nothing else.
void Initialise(int64_t seed, absl::string_view layer, const ParamSpec& spec,
                float* values);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_LAYER_H_
