#include "kernels/layers/max_pool2d.h"

#include "kernels/layers/body.h"
#include "kernels/layers/max_pool2d_shape.h"

namespace pipework {
namespace {

class MaxPool2d final : public LayerBody {
 public:
  MaxPool2d(const MaxPool2dSpec& spec, Shape sample, Backend& backend)
      : spec_(spec), sample_(std::move(sample)), backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& context,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> /*params*/,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* saved) override {
    const Tensor& x = inputs[0];
    MaxPoolForwardArgs args;
    args.shape = ShapeFor(BatchOf(x, sample_));
    ASSIGN_OR_RETURN(
        Tensor y,
        NewActivation(backend_,
                      Shape({args.shape.batch, args.shape.channels,
                             args.shape.OutHeight(), args.shape.OutWidth()})));
    args.x = x.f32();
    args.y = y.f32();
    Saved* keep = Keeps(context, saved);
    Tensor argmax;
    if (keep != nullptr) {
      ASSIGN_OR_RETURN(argmax,
                       Tensor::Allocate(*backend_.allocator(), y.shape(),
                                        DType::kI32, MemoryUse::kActivations));
      args.argmax = argmax.i32();
    }
    RETURN_IF_ERROR(backend_.MaxPoolForward(args));
    if (keep != nullptr) keep->tensors = {argmax};
    return y;
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& saved,
      absl::Span<const Tensor> /*params*/, const Tensor& output_gradient,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> /*param_gradients*/) override {
    TensorList gradients(1);
    if (!wanted[0]) return gradients;
    const int64_t batch = output_gradient.shape().dim(0);
    ASSIGN_OR_RETURN(gradients[0],
                     NewActivation(backend_, sample_.WithBatch(batch)));
    MaxPoolBackwardArgs args;
    args.shape = ShapeFor(batch);
    args.dy = output_gradient.f32();
    args.argmax = saved.tensors[0].i32();
    args.dx = gradients[0].f32();
    RETURN_IF_ERROR(backend_.MaxPoolBackward(args));
    return gradients;
  }

 private:
  MaxPoolShape ShapeFor(int64_t batch) const {
    return {batch, spec_.image.channels, spec_.image.height, spec_.image.width,
            spec_.window};
  }

  const MaxPool2dSpec spec_;
  const Shape sample_;
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeMaxPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  ASSIGN_OR_RETURN(const MaxPool2dSpec spec, ReadMaxPool2d(layer, inputs));
  return std::make_unique<MaxPool2d>(spec, inputs[0].shape, backend);
}

}  // namespace pipework
