// What the networks share: checks of the two ends that the data gives.
#ifndef PIPEWORK_KERNELS_MODELS_MODEL_CHECKS_H_
#define PIPEWORK_KERNELS_MODELS_MODEL_CHECKS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/models/registry.h"
#include "proto/errors.h"

namespace pipework {

// InvalidArgument unless there is one class number a sample, of at least two
// classes.
inline absl::Status CheckClassifier(absl::string_view who,
                                    const ModelEnds& ends) {
  if (ends.label.rank() != 0) {
    return Mismatch(who, "shape of a label", ends.label.ToString(),
                    "[], one class number a sample",
                    "give the layers of the network instead");
  }
  if (ends.classes < 2) {
    return Mismatch(who, "number of classes", absl::StrCat(ends.classes),
                    "2 or more");
  }
  return absl::OkStatus();
}

// InvalidArgument unless a sample is an image of at least `side` in both
// directions.
inline absl::Status CheckImage(absl::string_view who, const ModelEnds& ends,
                               int64_t side) {
  const Shape& shape = ends.sample;
  if ((shape.rank() == 2 || shape.rank() == 3) &&
      shape.dim(shape.rank() - 1) >= side &&
      shape.dim(shape.rank() - 2) >= side) {
    return absl::OkStatus();
  }
  return Mismatch(who, "shape of a sample", shape.ToString(),
                  absl::StrCat("[height,width] or [channels,height,width] of "
                               "at least ",
                               side, "x", side));
}

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_MODELS_MODEL_CHECKS_H_
