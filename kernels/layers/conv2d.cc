#include "kernels/layers/conv2d.h"

#include "kernels/layers/body.h"
#include "kernels/layers/conv2d_shape.h"

namespace pipework {
namespace {

class Conv2d final : public LayerBody {
 public:
  Conv2d(const Conv2dSpec& spec, Shape sample, Backend& backend)
      : spec_(spec), sample_(std::move(sample)), backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& context,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> params,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* saved) override {
    const Tensor& x = inputs[0];
    Conv2dForwardArgs args;
    args.shape = ShapeFor(BatchOf(x, sample_));
    ASSIGN_OR_RETURN(Tensor y,
                     NewActivation(backend_, Shape({args.shape.batch, spec_.out,
                                                    args.shape.OutHeight(),
                                                    args.shape.OutWidth()})));
    args.x = x.f32();
    args.w = params[0].f32();
    args.b = spec_.bias ? params[1].f32() : nullptr;
    args.y = y.f32();
    RETURN_IF_ERROR(backend_.Conv2dForward(args));
    if (Saved* keep = Keeps(context, saved)) keep->tensors = {x};
    return y;
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& saved,
      absl::Span<const Tensor> params, const Tensor& output_gradient,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> param_gradients) override {
    const Tensor& x = saved.tensors[0];

    Conv2dBackwardWeightsArgs weights;
    weights.shape = ShapeFor(BatchOf(x, sample_));
    weights.x = x.f32();
    weights.dy = output_gradient.f32();
    weights.dw = param_gradients[0].f32();
    weights.db = spec_.bias ? param_gradients[1].f32() : nullptr;
    RETURN_IF_ERROR(backend_.Conv2dBackwardWeights(weights));

    TensorList gradients(1);
    if (wanted[0]) {
      ASSIGN_OR_RETURN(gradients[0], NewActivation(backend_, x.shape()));
      Conv2dBackwardDataArgs data;
      data.shape = weights.shape;
      data.w = params[0].f32();
      data.dy = output_gradient.f32();
      data.dx = gradients[0].f32();
      RETURN_IF_ERROR(backend_.Conv2dBackwardData(data));
    }
    return gradients;
  }

 private:
  Conv2dShape ShapeFor(int64_t batch) const {
    Conv2dShape shape;
    shape.batch = batch;
    shape.in_channels = spec_.image.channels;
    shape.height = spec_.image.height;
    shape.width = spec_.image.width;
    shape.out_channels = spec_.out;
    shape.groups = spec_.groups;
    shape.window = spec_.window;
    return shape;
  }

  const Conv2dSpec spec_;
  const Shape sample_;
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeConv2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  ASSIGN_OR_RETURN(const Conv2dSpec spec, ReadConv2d(layer, inputs));
  return std::make_unique<Conv2d>(spec, inputs[0].shape, backend);
}

}  // namespace pipework
