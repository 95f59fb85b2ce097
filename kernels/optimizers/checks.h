// What the optimizers share: checks of a spec's numbers and of an update's
// tensors.
#ifndef PIPEWORK_KERNELS_OPTIMIZERS_CHECKS_H_
#define PIPEWORK_KERNELS_OPTIMIZERS_CHECKS_H_

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "proto/check.h"
#include "proto/errors.h"

namespace pipework {

// InvalidArgument unless `value` is in [min, below). NaN is not.
inline absl::Status CheckIn(absl::string_view what, double value, double min,
                            double below) {
  if (value >= min && value < below) return absl::OkStatus();
  return Mismatch("optimizer", what, absl::StrCat(value),
                  std::isinf(below)
                      ? absl::StrCat("a number, at least ", min)
                      : absl::StrCat("from ", min, " to below ", below));
}

// InvalidArgument where a field of another optimizer was given.
inline absl::Status CheckUnused(absl::string_view optimizer,
                                absl::string_view what, double value,
                                double fallback) {
  if (value == 0 || value == fallback) return absl::OkStatus();
  return Mismatch("optimizer", what, absl::StrCat(value),
                  absl::StrCat("none with ", optimizer), "leave it out");
}

// The lists of one update fit each other.
inline void CheckLists(absl::Span<const Tensor> weights,
                       absl::Span<const Tensor> gradients,
                       absl::Span<const Tensor> state,
                       absl::Span<const Tensor> updated, size_t states) {
  PIPE_CHECK(gradients.size() == weights.size());
  PIPE_CHECK(updated.size() == weights.size());
  PIPE_CHECK(state.size() == weights.size() * states);
  for (size_t i = 0; i < weights.size(); ++i) {
    PIPE_CHECK(gradients[i].elements() == weights[i].elements());
    PIPE_CHECK(updated[i].elements() == weights[i].elements());
    for (size_t j = 0; j < states; ++j) {
      PIPE_CHECK(state[i * states + j].elements() == weights[i].elements());
    }
  }
}

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPTIMIZERS_CHECKS_H_
