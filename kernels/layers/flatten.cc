#include "kernels/layers/flatten.h"

#include "kernels/layers/body.h"

namespace pipework {
namespace {

class Flatten final : public LayerBody {
 public:
  explicit Flatten(Shape sample) : sample_(std::move(sample)) {}

  absl::StatusOr<Tensor> Forward(const StepContext& /*context*/,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> /*params*/,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* /*saved*/) override {
    const int64_t batch = BatchOf(inputs[0], sample_);
    return inputs[0].Reshaped(Shape({batch, sample_.elements()}));
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& /*saved*/,
      absl::Span<const Tensor> /*params*/, const Tensor& output_gradient,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> /*param_gradients*/) override {
    TensorList gradients(1);
    if (wanted[0]) {
      gradients[0] = output_gradient.Reshaped(
          sample_.WithBatch(output_gradient.shape().dim(0)));
    }
    return gradients;
  }

 private:
  const Shape sample_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeFlatten(
    const v1::Layer& /*layer*/, absl::Span<const TensorSpec> inputs,
    Backend& /*backend*/) {
  return std::make_unique<Flatten>(inputs[0].shape);
}

}  // namespace pipework
