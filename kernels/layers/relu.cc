#include "kernels/layers/relu.h"

#include "kernels/layers/body.h"

namespace pipework {
namespace {

class Relu final : public LayerBody {
 public:
  explicit Relu(Backend& backend) : backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& context,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> /*params*/,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* saved) override {
    const Tensor& x = inputs[0];
    ASSIGN_OR_RETURN(Tensor y, NewActivation(backend_, x.shape()));
    RETURN_IF_ERROR(backend_.ReluForward({x.elements(), x.f32(), y.f32()}));
    if (Saved* keep = Keeps(context, saved)) keep->tensors = {y};
    return y;
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& saved,
      absl::Span<const Tensor> /*params*/, const Tensor& output_gradient,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> /*param_gradients*/) override {
    TensorList gradients(1);
    if (!wanted[0]) return gradients;
    const Tensor& y = saved.tensors[0];
    ASSIGN_OR_RETURN(gradients[0], NewActivation(backend_, y.shape()));
    RETURN_IF_ERROR(backend_.ReluBackward(
        {y.elements(), y.f32(), output_gradient.f32(), gradients[0].f32()}));
    return gradients;
  }

 private:
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeRelu(
    const v1::Layer& /*layer*/, absl::Span<const TensorSpec> /*inputs*/,
    Backend& backend) {
  return std::make_unique<Relu>(backend);
}

}  // namespace pipework
