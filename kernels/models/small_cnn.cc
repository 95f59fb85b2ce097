#include "kernels/models/small_cnn.h"

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "kernels/models/graph_builder.h"
#include "kernels/models/model_checks.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr char kWho[] = "model small_cnn";
constexpr absl::string_view kArgs[] = {"width", "batch_norm", "dropout"};

}  // namespace

absl::StatusOr<v1::Graph> BuildSmallCnn(absl::Span<const v1::Arg* const> args,
                                        const ModelEnds& ends) {
  ArgReader reader(kWho, args, kArgs);
  const int64_t width = reader.Int("width", 16, 1, 4096);
  const bool batch_norm = reader.Bool("batch_norm", false);
  const double dropout = reader.Real("dropout", 0, 0, 1);
  RETURN_IF_ERROR(reader.status());
  RETURN_IF_ERROR(CheckClassifier(kWho, ends));
  RETURN_IF_ERROR(CheckImage(kWho, ends, 4));

  GraphBuilder graph("small_cnn", ends);
  const auto convolution = [&](int number, int64_t out) {
    graph.Add(absl::StrCat("conv", number), "conv2d",
              {{"out", out}, {"kernel", 3}, {"padding", 1}});
    if (batch_norm) graph.Add(absl::StrCat("bn", number), "batch_norm");
    graph.Add(absl::StrCat("relu", number), "relu");
  };
  convolution(1, width);
  convolution(2, width);
  graph.Add("pool1", "max_pool2d", {{"kernel", 2}});
  convolution(3, 4 * width);
  graph.Add("pool2", "max_pool2d", {{"kernel", 2}});
  graph.Add("flatten", "flatten");
  graph.Add("fc1", "linear", {{"out", 8 * width}});
  graph.Add("relu4", "relu");
  if (dropout > 0) graph.Add("dropout", "dropout", {{"p", dropout}});
  graph.Add("fc2", "linear", {{"out", ends.classes}});
  graph.Add("loss", "softmax_cross_entropy");
  return graph.Take();
}

}  // namespace pipework
