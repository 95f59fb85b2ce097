// With W warm-up steps, T steps in all and p = (step - W) / (T - W):
//   step < W     base (step + 1) / W
//   constant     base
//   step         base factor^floor((step - W) / (every_epochs steps_per_epoch))
//   cosine       final + (base - final) (1 + cos(pi p)) / 2
//   polynomial   final + (base - final) (1 - p)^power
#include "kernels/optimizers/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/errors.h"

namespace pipework {
namespace {

constexpr double kPi = 3.14159265358979323846;

// `progress` in 0..1; `steps` since the warm-up ended.
struct Point {
  double progress = 0;
  double steps = 0;
  double steps_per_epoch = 0;
};

double Constant(const v1::LearningRateSpec& spec, const Point& /*at*/) {
  return spec.base();
}

double Step(const v1::LearningRateSpec& spec, const Point& at) {
  const double factor = spec.factor() == 0 ? 0.1 : spec.factor();
  const double period = spec.every_epochs() * at.steps_per_epoch;
  return spec.base() * std::pow(factor, std::floor(at.steps / period));
}

double Cosine(const v1::LearningRateSpec& spec, const Point& at) {
  return spec.final() + (spec.base() - spec.final()) * 0.5 *
                            (1.0 + std::cos(kPi * at.progress));
}

double Polynomial(const v1::LearningRateSpec& spec, const Point& at) {
  const double power = spec.power() == 0 ? 1.0 : spec.power();
  return spec.final() +
         (spec.base() - spec.final()) * std::pow(1.0 - at.progress, power);
}

struct Entry {
  absl::string_view name;
  double (*rate)(const v1::LearningRateSpec&, const Point&);
};

constexpr Entry kSchedules[] = {
    {"constant", &Constant},
    {"step", &Step},
    {"cosine", &Cosine},
    {"polynomial", &Polynomial},
};

const Entry* Find(absl::string_view name) {
  if (name.empty()) return &kSchedules[0];
  for (const Entry& entry : kSchedules) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// Written so that NaN fails.
absl::Status CheckNumber(absl::string_view what, double value, bool is_right,
                         absl::string_view wanted) {
  if (is_right && std::isfinite(value)) return absl::OkStatus();
  return Mismatch("learning_rate", what, absl::StrCat(value), wanted);
}

}  // namespace

double LearningRateAt(const v1::LearningRateSpec& spec, int64_t step,
                      int64_t total_steps, int64_t steps_per_epoch) {
  const double per_epoch = static_cast<double>(steps_per_epoch);
  const int64_t warmup = std::llround(spec.warmup_epochs() * per_epoch);
  if (step < warmup) {
    return spec.base() * static_cast<double>(step + 1) /
           static_cast<double>(warmup);
  }
  Point at;
  at.steps = static_cast<double>(step - warmup);
  at.steps_per_epoch = per_epoch;
  const int64_t left = std::max<int64_t>(1, total_steps - warmup);
  at.progress = std::min(1.0, at.steps / static_cast<double>(left));
  return Find(spec.schedule())->rate(spec, at);
}

absl::Status CheckLearningRate(const v1::LearningRateSpec& spec) {
  if (Find(spec.schedule()) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "learning_rate: schedule is \"", spec.schedule(), "\", expected ",
        absl::StrJoin(LearningRateNames(), ", ")));
  }
  const bool is_step = spec.schedule() == "step";
  const absl::Status checks[] = {
      CheckNumber("base", spec.base(), spec.base() > 0, "above 0"),
      // A run has fewer epochs; and the steps of the warm-up stay a number.
      CheckNumber("warmup_epochs", spec.warmup_epochs(),
                  spec.warmup_epochs() >= 0 && spec.warmup_epochs() <= 1e6,
                  "from 0 to 1000000"),
      CheckNumber(
          "every_epochs", spec.every_epochs(),
          spec.every_epochs() > 0 || (!is_step && spec.every_epochs() == 0),
          "above 0"),
      CheckNumber("factor", spec.factor(), spec.factor() >= 0, "above 0"),
      CheckNumber("power", spec.power(), spec.power() >= 0, "above 0"),
      CheckNumber("final", spec.final(), spec.final() >= 0, "0 or more"),
  };
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  return absl::OkStatus();
}

std::vector<std::string> LearningRateNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kSchedules) names.emplace_back(entry.name);
  return names;
}

}  // namespace pipework
