#include "kernels/layers/add.h"

#include "kernels/layers/body.h"

namespace pipework {
namespace {

// Inputs are added in their order: ((a + b) + c) + ...
class Add final : public LayerBody {
 public:
  explicit Add(Backend& backend) : backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& /*context*/,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> /*params*/,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* /*saved*/) override {
    ASSIGN_OR_RETURN(Tensor y, NewActivation(backend_, inputs[0].shape()));
    const float* sum = inputs[0].f32();
    for (const Tensor& input : inputs.subspan(1)) {
      PIPE_CHECK(input.shape() == y.shape());
      RETURN_IF_ERROR(backend_.Add({y.elements(), sum, input.f32(), y.f32()}));
      sum = y.f32();
    }
    return y;
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& /*saved*/,
      absl::Span<const Tensor> /*params*/, const Tensor& output_gradient,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> /*param_gradients*/) override {
    TensorList gradients(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) gradients[i] = output_gradient;
    }
    return gradients;
  }

 private:
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeAdd(
    const v1::Layer& /*layer*/, absl::Span<const TensorSpec> /*inputs*/,
    Backend& backend) {
  return std::make_unique<Add>(backend);
}

}  // namespace pipework
