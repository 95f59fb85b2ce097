// Fully connected layers with a rectifier between them:
//   flatten  (fc1 relu1 [drop1])  (fc2 relu2 [drop2])  ...  fcN loss
//   hidden   features of the hidden layers, default [64,64]
//   dropout  probability behind each hidden layer, default 0: no such layers
#ifndef PIPEWORK_KERNELS_MODELS_MLP_H_
#define PIPEWORK_KERNELS_MODELS_MLP_H_

#include "kernels/models/registry.h"

namespace pipework {

absl::StatusOr<v1::Graph> BuildMlp(absl::Span<const v1::Arg* const> args,
                                   const ModelEnds& ends);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_MODELS_MLP_H_
