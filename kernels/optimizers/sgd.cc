#include "kernels/optimizers/sgd.h"

#include <limits>

#include "kernels/optimizers/checks.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const v1::OptimizerSpec& spec)
      : momentum_(static_cast<float>(spec.momentum())),
        weight_decay_(static_cast<float>(spec.weight_decay())),
        nesterov_(spec.nesterov()) {
    if (momentum_ > 0) state_names_ = {"momentum"};
  }

  const std::vector<std::string>& state_names() const override {
    return state_names_;
  }

  absl::Status Update(Backend& backend, const UpdateContext& context,
                      absl::Span<const Tensor> weights,
                      absl::Span<const Tensor> gradients,
                      absl::Span<Tensor> state,
                      absl::Span<Tensor> updated) const override {
    CheckLists(weights, gradients, state, updated, state_names_.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      SgdArgs args;
      args.elements = weights[i].elements();
      args.lr = static_cast<float>(context.learning_rate);
      args.gradient_scale = static_cast<float>(context.gradient_scale);
      args.momentum = momentum_;
      args.weight_decay = weight_decay_;
      args.nesterov = nesterov_;
      args.w = weights[i].f32();
      args.g = gradients[i].f32();
      args.v = state_names_.empty() ? nullptr : state[i].f32();
      args.out = updated[i].f32();
      RETURN_IF_ERROR(backend.Sgd(args));
    }
    return absl::OkStatus();
  }

 private:
  const float momentum_;
  const float weight_decay_;
  const bool nesterov_;
  std::vector<std::string> state_names_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeSgd(
    const v1::OptimizerSpec& spec) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  RETURN_IF_ERROR(CheckIn("momentum", spec.momentum(), 0, 1));
  RETURN_IF_ERROR(CheckIn("weight_decay", spec.weight_decay(), 0, kNoLimit));
  if (spec.nesterov() && spec.momentum() == 0) {
    return Mismatch("optimizer", "momentum", "0", "above 0 with nesterov");
  }
  RETURN_IF_ERROR(CheckUnused("sgd", "beta1", spec.beta1(), 0.9));
  RETURN_IF_ERROR(CheckUnused("sgd", "beta2", spec.beta2(), 0.999));
  RETURN_IF_ERROR(CheckUnused("sgd", "epsilon", spec.epsilon(), 1e-8));
  return std::make_unique<Sgd>(spec);
}

}  // namespace pipework
