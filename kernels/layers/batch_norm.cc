#include "kernels/layers/batch_norm.h"

#include "kernels/layers/batch_norm_shape.h"
#include "kernels/layers/body.h"

namespace pipework {
namespace {

class BatchNorm final : public LayerBody {
 public:
  BatchNorm(const BatchNormSpec& spec, Shape sample, Backend& backend)
      : spec_(spec), sample_(std::move(sample)), backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& context,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> params,
                                 absl::Span<Tensor> buffers,
                                 Saved* saved) override {
    const Tensor& x = inputs[0];
    const int64_t batch = BatchOf(x, sample_);
    ASSIGN_OR_RETURN(Tensor y, NewActivation(backend_, x.shape()));
    if (!context.training) {
      RETURN_IF_ERROR(Infer(batch, x, params, buffers, y));
      return y;
    }

    const Shape channels({spec_.channels});
    ASSIGN_OR_RETURN(Tensor mean, NewActivation(backend_, channels));
    ASSIGN_OR_RETURN(Tensor rstd, NewActivation(backend_, channels));
    // No sample has no statistics; the running ones stay as they are.
    if (batch > 0) {
      BatchNormTrainingArgs args;
      args.shape = ShapeFor(batch);
      args.momentum = static_cast<float>(spec_.momentum);
      args.epsilon = static_cast<float>(spec_.eps);
      args.x = x.f32();
      args.gain = params[0].f32();
      args.bias = params[1].f32();
      args.running_mean = buffers[0].f32();
      args.running_variance = buffers[1].f32();
      args.y = y.f32();
      args.mean = mean.f32();
      args.rstd = rstd.f32();
      RETURN_IF_ERROR(backend_.BatchNormTraining(args));
    }
    if (saved != nullptr) saved->tensors = {x, mean, rstd};
    return y;
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& saved,
      absl::Span<const Tensor> params, const Tensor& output_gradient,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> param_gradients) override {
    const Tensor& x = saved.tensors[0];
    TensorList gradients(1);
    if (wanted[0]) {
      ASSIGN_OR_RETURN(gradients[0], NewActivation(backend_, x.shape()));
    }
    const int64_t batch = BatchOf(x, sample_);
    if (batch == 0) return gradients;

    BatchNormBackwardArgs args;
    args.shape = ShapeFor(batch);
    args.x = x.f32();
    args.dy = output_gradient.f32();
    args.gain = params[0].f32();
    args.mean = saved.tensors[1].f32();
    args.rstd = saved.tensors[2].f32();
    args.dx = wanted[0] ? gradients[0].f32() : nullptr;
    args.dgain = param_gradients[0].f32();
    args.dbias = param_gradients[1].f32();
    RETURN_IF_ERROR(backend_.BatchNormBackward(args));
    return gradients;
  }

 private:
  absl::Status Infer(int64_t batch, const Tensor& x,
                     absl::Span<const Tensor> params,
                     absl::Span<const Tensor> buffers, Tensor& y) {
    if (batch == 0) return absl::OkStatus();
    BatchNormInferenceArgs args;
    args.shape = ShapeFor(batch);
    args.epsilon = static_cast<float>(spec_.eps);
    args.x = x.f32();
    args.gain = params[0].f32();
    args.bias = params[1].f32();
    args.running_mean = buffers[0].f32();
    args.running_variance = buffers[1].f32();
    args.y = y.f32();
    return backend_.BatchNormInference(args);
  }

  BatchNormShape ShapeFor(int64_t batch) const {
    return {batch, spec_.channels, spec_.spatial};
  }

  const BatchNormSpec spec_;
  const Shape sample_;
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeBatchNorm(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  ASSIGN_OR_RETURN(const BatchNormSpec spec, ReadBatchNorm(layer, inputs));
  return std::make_unique<BatchNorm>(spec, inputs[0].shape, backend);
}

}  // namespace pipework
