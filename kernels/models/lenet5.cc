#include "kernels/models/lenet5.h"

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "kernels/models/graph_builder.h"
#include "kernels/models/model_checks.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr char kWho[] = "model lenet5";

}  // namespace

absl::StatusOr<v1::Graph> BuildLenet5(absl::Span<const v1::Arg* const> args,
                                      const ModelEnds& ends) {
  RETURN_IF_ERROR(ArgReader(kWho, args, {}).status());
  RETURN_IF_ERROR(CheckClassifier(kWho, ends));
  // Below 12 nothing is left for the second convolution.
  RETURN_IF_ERROR(CheckImage(kWho, ends, 12));

  GraphBuilder graph("lenet5", ends);
  // Padding makes 32x32 of 28x28, the size that the paper's images have.
  graph.Add("conv1", "conv2d", {{"out", 6}, {"kernel", 5}, {"padding", 2}});
  graph.Add("relu1", "relu");
  graph.Add("pool1", "max_pool2d", {{"kernel", 2}});
  graph.Add("conv2", "conv2d", {{"out", 16}, {"kernel", 5}});
  graph.Add("relu2", "relu");
  graph.Add("pool2", "max_pool2d", {{"kernel", 2}});
  graph.Add("flatten", "flatten");
  graph.Add("fc1", "linear", {{"out", 120}});
  graph.Add("relu3", "relu");
  graph.Add("fc2", "linear", {{"out", 84}});
  graph.Add("relu4", "relu");
  graph.Add("fc3", "linear", {{"out", ends.classes}});
  graph.Add("loss", "softmax_cross_entropy");
  return graph.Take();
}

}  // namespace pipework
