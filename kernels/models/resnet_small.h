// A residual network (He et al., "Deep residual learning for image
// recognition", 2016; the form for small images): a 3x3 convolution, groups of
// blocks of two 3x3 convolutions each, the mean over the image, one linear
// layer. The first block of each further group halves the image, with a 1x1
// convolution on its skip. Skips may cross the cuts between stages.
//   widths   channels of each group, default [16,32]
//   blocks   blocks in each group, default 1
//   dropout  probability in front of the last layer, default 0: no such layer
// widths [16,32,64] and blocks 3 are ResNet-20: 272,474 parameters for
// [3,32,32] and 10 classes.
#ifndef PIPEWORK_KERNELS_MODELS_RESNET_SMALL_H_
#define PIPEWORK_KERNELS_MODELS_RESNET_SMALL_H_

#include "kernels/models/registry.h"

namespace pipework {

absl::StatusOr<v1::Graph> BuildResnetSmall(
    absl::Span<const v1::Arg* const> args, const ModelEnds& ends);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_MODELS_RESNET_SMALL_H_
