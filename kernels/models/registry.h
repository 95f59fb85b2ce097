// Built-in networks by name.
#ifndef PIPEWORK_KERNELS_MODELS_REGISTRY_H_
#define PIPEWORK_KERNELS_MODELS_REGISTRY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "proto/graph.pb.h"

namespace pipework {

// What the data says of the network's two ends.
struct ModelEnds {
  Shape sample;         // one x, without batch
  Shape label;          // one y, without batch; rank 0: one class number
  int64_t classes = 0;  // largest label + 1
};

struct ModelType {
  absl::string_view name;
  absl::string_view summary;  // with its arguments and their defaults
};
absl::Span<const ModelType> ModelTypes();

// The graph of a built-in network. InvalidArgument: unknown name (lists the
// known ones), unknown or impossible argument, a sample shape it cannot take.
absl::StatusOr<v1::Graph> BuildModel(absl::string_view name,
                                     absl::Span<const v1::Arg* const> args,
                                     const ModelEnds& ends);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_MODELS_REGISTRY_H_
