// What a layer looks like from outside, without running it: shapes,
// parameters, operations, bytes saved. No back end, no memory: the planner,
// the spec reader and pipectl use this half alone.
#ifndef PIPEWORK_KERNELS_LAYERS_LAYER_SHAPE_H_
#define PIPEWORK_KERNELS_LAYERS_LAYER_SHAPE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "proto/graph.pb.h"

namespace pipework {

// A tensor between layers: the shape of one sample, without the batch
// dimension.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::kF32;
};

// How a parameter or buffer starts.
enum class InitKind { kZeros, kOnes, kUniform };

// A parameter (trained) or a buffer (state that is not trained, such as
// running statistics). Names and layouts are PyTorch's.
struct ParamSpec {
  std::string name;  // "weight", "bias", "running_mean"
  Shape shape;
  InitKind init = InitKind::kZeros;
  double bound = 0;  // kUniform: in [-bound, bound)
};

// Everything known of a layer before it is built.
struct LayerInfo {
  TensorSpec output;  // of a loss: see is_loss
  std::vector<ParamSpec> params;
  std::vector<ParamSpec> buffers;
  double forward_operations = 0;     // multiply and add count 2, per sample
  double backward_operations = 0;    // per sample
  int64_t saved_bytes = 0;           // kept between forward and backward, per
                                     // sample, beyond f32 inputs and output
                                     // (labels count)
  int64_t saved_bytes_per_unit = 0;  // likewise, whatever the samples
  bool saves_input = false;          // backward reads the input again
  bool saves_output = false;         // backward reads the output again
  // A loss reads (logits, labels); its output is f32 [2] for a whole unit:
  // the sum of the losses and the number of right answers. Backward starts
  // from the gradient of that sum: every division by a number of samples
  // happens once, in the update.
  bool is_loss = false;
};

// InvalidArgument: unknown type (lists the known ones), unknown or wrong
// argument, wrong number or shape of inputs; in the one form of errors.h with
// the layer's name as the one who speaks.
absl::StatusOr<LayerInfo> InferLayer(const v1::Layer& layer,
                                     absl::Span<const TensorSpec> inputs);

// One row of `pipectl explain model.layers` and of the registry.
struct LayerType {
  absl::string_view name;
  absl::string_view summary;  // formula or one sentence, with its arguments
  bool is_loss = false;
};
absl::Span<const LayerType> LayerTypes();

// Whether `type` is the name of a loss; false for an unknown one.
bool IsLossType(absl::string_view type);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_LAYER_SHAPE_H_
