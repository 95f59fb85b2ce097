#include "kernels/layers/linear.h"

#include "kernels/layers/body.h"
#include "kernels/layers/linear_shape.h"

namespace pipework {
namespace {

class Linear final : public LayerBody {
 public:
  Linear(const LinearSpec& spec, Shape sample, Backend& backend)
      : spec_(spec), sample_(std::move(sample)), backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& context,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> params,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* saved) override {
    const Tensor& x = inputs[0];
    BatchOf(x, sample_);
    std::vector<int64_t> dims = x.shape().dims();
    dims.back() = spec_.out;
    ASSIGN_OR_RETURN(Tensor y, NewActivation(backend_, Shape(std::move(dims))));

    LinearForwardArgs args;
    args.shape = ShapeFor(x);
    args.x = x.f32();
    args.w = params[0].f32();
    args.b = spec_.bias ? params[1].f32() : nullptr;
    args.y = y.f32();
    RETURN_IF_ERROR(backend_.LinearForward(args));
    if (Saved* keep = Keeps(context, saved)) keep->tensors = {x};
    return y;
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& saved,
      absl::Span<const Tensor> params, const Tensor& output_gradient,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> param_gradients) override {
    const Tensor& x = saved.tensors[0];

    LinearBackwardWeightsArgs weights;
    weights.shape = ShapeFor(x);
    weights.x = x.f32();
    weights.dy = output_gradient.f32();
    weights.dw = param_gradients[0].f32();
    weights.db = spec_.bias ? param_gradients[1].f32() : nullptr;
    RETURN_IF_ERROR(backend_.LinearBackwardWeights(weights));

    TensorList gradients(1);
    if (wanted[0]) {
      ASSIGN_OR_RETURN(gradients[0], NewActivation(backend_, x.shape()));
      LinearBackwardDataArgs data;
      data.shape = weights.shape;
      data.w = params[0].f32();
      data.dy = output_gradient.f32();
      data.dx = gradients[0].f32();
      RETURN_IF_ERROR(backend_.LinearBackwardData(data));
    }
    return gradients;
  }

 private:
  LinearShape ShapeFor(const Tensor& x) const {
    return {x.elements() / spec_.in, spec_.in, spec_.out};
  }

  const LinearSpec spec_;
  const Shape sample_;
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeLinear(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  ASSIGN_OR_RETURN(const LinearSpec spec, ReadLinear(layer, inputs));
  return std::make_unique<Linear>(spec, inputs[0].shape, backend);
}

}  // namespace pipework
