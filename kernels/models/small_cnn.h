// A convolutional network for small images, such as 8x8 digits:
//   conv1 relu1 conv2 relu2 pool1 conv3 relu3 pool2 flatten fc1 relu4 fc2 loss
//   width       channels of conv1 and conv2, default 16; conv3 has four times
//               as many, so that it costs as much as conv2 on a quarter of the
//               pixels, and fc1 has eight times as many features
//   batch_norm  a batch_norm layer behind each convolution, default false
//   dropout     probability in front of fc2, default 0: no such layer
#ifndef PIPEWORK_KERNELS_MODELS_SMALL_CNN_H_
#define PIPEWORK_KERNELS_MODELS_SMALL_CNN_H_

#include "kernels/models/registry.h"

namespace pipework {

absl::StatusOr<v1::Graph> BuildSmallCnn(absl::Span<const v1::Arg* const> args,
                                        const ModelEnds& ends);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_MODELS_SMALL_CNN_H_
