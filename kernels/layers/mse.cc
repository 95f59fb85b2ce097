#include "kernels/layers/mse.h"

#include "kernels/layers/body.h"
#include "kernels/layers/mse_shape.h"

namespace pipework {
namespace {

class Mse final : public LayerBody {
 public:
  Mse(Shape prediction, Backend& backend)
      : prediction_(std::move(prediction)), backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& context,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> /*params*/,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* saved) override {
    const Tensor& x = inputs[0];
    const Tensor& labels = inputs[1];
    BatchOf(x, prediction_);
    PIPE_CHECK(labels.elements() == x.elements());
    ASSIGN_OR_RETURN(Tensor result, NewActivation(backend_, Shape({2})));
    RETURN_IF_ERROR(backend_.SquaredErrorForward(
        {x.elements(), x.f32(), labels.i32(), result.f32()}));
    if (Saved* keep = Keeps(context, saved)) keep->tensors = {x, labels};
    return result;
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& saved,
      absl::Span<const Tensor> /*params*/, const Tensor& /*output_gradient*/,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> /*param_gradients*/) override {
    TensorList gradients(2);
    if (!wanted[0]) return gradients;
    const Tensor& x = saved.tensors[0];
    ASSIGN_OR_RETURN(gradients[0], NewActivation(backend_, x.shape()));
    RETURN_IF_ERROR(backend_.SquaredErrorBackward(
        {x.elements(), x.f32(), saved.tensors[1].i32(), gradients[0].f32()}));
    return gradients;
  }

 private:
  const Shape prediction_;
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeMse(
    const v1::Layer& /*layer*/, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  return std::make_unique<Mse>(inputs[0].shape, backend);
}

}  // namespace pipework
