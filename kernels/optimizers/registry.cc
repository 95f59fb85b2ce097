// The table of optimizers.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/optimizers/adam.h"
#include "kernels/optimizers/optimizer.h"
#include "kernels/optimizers/sgd.h"

namespace pipework {
namespace {

struct Entry {
  absl::string_view name;
  absl::StatusOr<std::unique_ptr<Optimizer>> (*make)(const v1::OptimizerSpec&);
};

constexpr Entry kOptimizers[] = {
    {"sgd", &MakeSgd},
    {"adam", &MakeAdam},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
    const v1::OptimizerSpec& spec) {
  for (const Entry& entry : kOptimizers) {
    if (entry.name == spec.name()) return entry.make(spec);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer: name is \"", spec.name(), "\", expected ",
                   absl::StrJoin(OptimizerNames(), ", ")));
}

std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kOptimizers) names.emplace_back(entry.name);
  return names;
}

}  // namespace pipework
