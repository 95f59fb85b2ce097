#include "kernels/layers/avg_pool2d.h"

#include "kernels/layers/avg_pool2d_shape.h"
#include "kernels/layers/body.h"

namespace pipework {
namespace {

class AvgPool2d final : public LayerBody {
 public:
  AvgPool2d(const AvgPool2dSpec& spec, Shape sample, Backend& backend)
      : spec_(spec), sample_(std::move(sample)), backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& /*context*/,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> /*params*/,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* /*saved*/) override {
    const Tensor& x = inputs[0];
    AvgPoolForwardArgs args;
    args.shape = ShapeFor(BatchOf(x, sample_));
    ASSIGN_OR_RETURN(
        Tensor y,
        NewActivation(backend_,
                      Shape({args.shape.batch, args.shape.channels,
                             args.shape.OutHeight(), args.shape.OutWidth()})));
    args.x = x.f32();
    args.y = y.f32();
    RETURN_IF_ERROR(backend_.AvgPoolForward(args));
    return y;
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& /*saved*/,
      absl::Span<const Tensor> /*params*/, const Tensor& output_gradient,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> /*param_gradients*/) override {
    TensorList gradients(1);
    if (!wanted[0]) return gradients;
    const int64_t batch = output_gradient.shape().dim(0);
    ASSIGN_OR_RETURN(gradients[0],
                     NewActivation(backend_, sample_.WithBatch(batch)));
    AvgPoolBackwardArgs args;
    args.shape = ShapeFor(batch);
    args.dy = output_gradient.f32();
    args.dx = gradients[0].f32();
    RETURN_IF_ERROR(backend_.AvgPoolBackward(args));
    return gradients;
  }

 private:
  AvgPoolShape ShapeFor(int64_t batch) const {
    return {batch, spec_.image.channels, spec_.image.height, spec_.image.width,
            spec_.window};
  }

  const AvgPool2dSpec spec_;
  const Shape sample_;
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  ASSIGN_OR_RETURN(const AvgPool2dSpec spec, ReadAvgPool2d(layer, inputs));
  return std::make_unique<AvgPool2d>(spec, inputs[0].shape, backend);
}

std::unique_ptr<LayerBody> MakeAvgPool2d(const AvgPool2dSpec& spec,
                                         const Shape& sample,
                                         Backend& backend) {
  return std::make_unique<AvgPool2d>(spec, sample, backend);
}

}  // namespace pipework
