// LeNet-5 (LeCun et al., "Gradient-based learning applied to document
// recognition", 1998) in the form of today: rectifiers, max pooling and a full
// second convolution. 61,706 parameters for 28x28 images and 10 classes. No
// arguments.
#ifndef PIPEWORK_KERNELS_MODELS_LENET5_H_
#define PIPEWORK_KERNELS_MODELS_LENET5_H_

#include "kernels/models/registry.h"

namespace pipework {

absl::StatusOr<v1::Graph> BuildLenet5(absl::Span<const v1::Arg* const> args,
                                      const ModelEnds& ends);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_MODELS_LENET5_H_
