#include "kernels/layers/softmax_cross_entropy.h"

#include "kernels/layers/body.h"
#include "kernels/layers/softmax_cross_entropy_shape.h"
#include "proto/errors.h"

namespace pipework {
namespace {

class SoftmaxCrossEntropy final : public LayerBody {
 public:
  SoftmaxCrossEntropy(const SoftmaxCrossEntropySpec& spec, std::string name,
                      Shape logits, Backend& backend)
      : spec_(spec),
        name_(std::move(name)),
        logits_(std::move(logits)),
        backend_(backend) {}

  absl::StatusOr<Tensor> Forward(const StepContext& context,
                                 absl::Span<const Tensor> inputs,
                                 absl::Span<const Tensor> /*params*/,
                                 absl::Span<Tensor> /*buffers*/,
                                 Saved* saved) override {
    const Tensor& x = inputs[0];
    const Tensor& labels = inputs[1];
    SoftmaxXentForwardArgs args;
    args.rows = BatchOf(x, logits_) * spec_.rows;
    PIPE_CHECK(labels.elements() == args.rows);
    args.classes = spec_.classes;
    args.x = x.f32();
    args.labels = labels.i32();
    ASSIGN_OR_RETURN(Tensor result, NewActivation(backend_, Shape({2})));
    args.result = result.f32();
    Saved* keep = Keeps(context, saved);
    Tensor p;
    if (keep != nullptr) {
      ASSIGN_OR_RETURN(p, NewActivation(backend_, x.shape()));
      args.p = p.f32();
    }
    RETURN_IF_ERROR(WithContext(name_, backend_.SoftmaxXentForward(args)));
    if (keep != nullptr) keep->tensors = {p, labels};
    return result;
  }

  absl::StatusOr<TensorList> Backward(
      const StepContext& /*context*/, const Saved& saved,
      absl::Span<const Tensor> /*params*/, const Tensor& /*output_gradient*/,
      absl::Span<const bool> wanted,
      absl::Span<Tensor> /*param_gradients*/) override {
    TensorList gradients(2);
    if (!wanted[0]) return gradients;
    const Tensor& p = saved.tensors[0];
    ASSIGN_OR_RETURN(gradients[0], NewActivation(backend_, p.shape()));
    SoftmaxXentBackwardArgs args;
    args.rows = p.elements() / spec_.classes;
    args.classes = spec_.classes;
    args.p = p.f32();
    args.labels = saved.tensors[1].i32();
    args.dx = gradients[0].f32();
    RETURN_IF_ERROR(backend_.SoftmaxXentBackward(args));
    return gradients;
  }

 private:
  const SoftmaxCrossEntropySpec spec_;
  const std::string name_;
  const Shape logits_;
  Backend& backend_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerBody>> MakeSoftmaxCrossEntropy(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  ASSIGN_OR_RETURN(const SoftmaxCrossEntropySpec spec,
                   ReadSoftmaxCrossEntropy(layer, inputs));
  return std::make_unique<SoftmaxCrossEntropy>(spec, layer.name(),
                                               inputs[0].shape, backend);
}

}  // namespace pipework
