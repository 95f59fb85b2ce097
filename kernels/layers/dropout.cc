#include "kernels/layers/dropout.h"

#include "kernels/layers/body.h"
#include "kernels/layers/dropout_shape.h"
#include "kernels/random.h"

namespace pipework {
namespace {

class Dropout final : public LayerBody {
 public:
  Dropout(double p, const std::string& name, Shape sample, Backend& backend)
      : p_(static_cast<float>(p)),
        name_hash_(HashName(name)),
        sample_(std::move(sample)),
        backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& context,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> /*params*/,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* /*saved*/) override {
    if (!context.training) return inputs[0];
    return Apply(context, inputs[0]);
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& context, const Saved& /*saved*/,
      absl::Span<const Tensor> /*params*/, const Tensor& output_gradient,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> /*param_gradients*/) override {
    TensorList gradients(1);
    if (wanted[0]) {
      ASSIGN_OR_RETURN(gradients[0], Apply(context, output_gradient));
    }
    return gradients;
  }

 private:
  // The mask of this unit on `x`, which is the input or a gradient.
  absl::StatusOr<Tensor> Apply(const StepContext& context, const Tensor& x) {
    ASSIGN_OR_RETURN(Tensor y, NewActivation(backend_, x.shape()));
    DropoutArgs args;
    args.samples = BatchOf(x, sample_);
    args.elements = sample_.elements();
    args.p = p_;
    args.key = RandomKey(context.seed, name_hash_);
    args.minibatch = context.minibatch.value();
    args.first_sample = context.first_sample;
    args.x = x.f32();
    args.y = y.f32();
    RETURN_IF_ERROR(backend_.Dropout(args));
    return y;
  }

  const float p_;
  const uint64_t name_hash_;
  const Shape sample_;
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeDropout(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  ASSIGN_OR_RETURN(const double p, ReadDropout(layer, inputs));
  return std::make_unique<Dropout>(p, layer.name(), inputs[0].shape, backend);
}

}  // namespace pipework
