#include "kernels/optimizers/adam.h"

#include <limits>

#include "kernels/optimizers/checks.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

class Adam final : public Optimizer {
 public:
  Adam(double beta1, double beta2, double epsilon, double weight_decay)
      : beta1_(beta1),
        beta2_(beta2),
        epsilon_(epsilon),
        weight_decay_(static_cast<float>(weight_decay)) {}

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
      AdamArgs args;
      args.elements = weights[i].elements();
      args.lr = context.learning_rate;
      args.gradient_scale = static_cast<float>(context.gradient_scale);
      args.beta1 = beta1_;
      args.beta2 = beta2_;
      args.epsilon = epsilon_;
      args.weight_decay = weight_decay_;
      args.step = context.update + 1;
      args.w = weights[i].f32();
      args.g = gradients[i].f32();
      args.m = state[2 * i].f32();
      args.v = state[2 * i + 1].f32();
      args.out = updated[i].f32();
      RETURN_IF_ERROR(backend.Adam(args));
    }
    return absl::OkStatus();
  }

 private:
  const double beta1_;
  const double beta2_;
  const double epsilon_;
  const float weight_decay_;
  const std::vector<std::string> state_names_ = {"exp_avg", "exp_avg_sq"};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdam(
    const v1::OptimizerSpec& spec) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  const bool is_bare =
      spec.beta1() == 0 && spec.beta2() == 0 && spec.epsilon() == 0;
  const double beta1 = is_bare ? 0.9 : spec.beta1();
  const double beta2 = is_bare ? 0.999 : spec.beta2();
  const double epsilon = is_bare ? 1e-8 : spec.epsilon();
  RETURN_IF_ERROR(CheckIn("beta1", beta1, 0, 1));
  RETURN_IF_ERROR(CheckIn("beta2", beta2, 0, 1));
  // Smaller ones vanish beside any root in f32, and 0 / 0 would follow.
  RETURN_IF_ERROR(CheckIn("epsilon", epsilon, 1e-30, kNoLimit));
  RETURN_IF_ERROR(CheckIn("weight_decay", spec.weight_decay(), 0, kNoLimit));
  RETURN_IF_ERROR(CheckUnused("adam", "momentum", spec.momentum(), 0));
  if (spec.nesterov()) {
    return Mismatch("optimizer", "nesterov", "true", "false with adam");
  }
  return std::make_unique<Adam>(beta1, beta2, epsilon, spec.weight_decay());
}

}  // namespace pipework
