// y = w_{d-1} ... w_1 w_0 x with scalar weights and half the squared error: the
// smallest network with one layer a stage, for tests of weight versions.
//   depth  number of weights, default 3
#ifndef PIPEWORK_KERNELS_MODELS_LINEAR_CHAIN_H_
#define PIPEWORK_KERNELS_MODELS_LINEAR_CHAIN_H_

#include "kernels/models/registry.h"

namespace pipework {

absl::StatusOr<v1::Graph> BuildLinearChain(
    absl::Span<const v1::Arg* const> args, const ModelEnds& ends);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_MODELS_LINEAR_CHAIN_H_
