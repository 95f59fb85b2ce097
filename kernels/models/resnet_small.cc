#include "kernels/models/resnet_small.h"

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "kernels/models/graph_builder.h"
#include "kernels/models/model_checks.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr char kWho[] = "model resnet_small";
constexpr absl::string_view kArgs[] = {"widths", "blocks", "dropout"};

// Two convolutions beside a skip. `halves`: the block that begins a group.
void AddBlock(GraphBuilder& graph, const std::string& name, int64_t width,
              bool halves) {
  std::string skip = graph.last();
  if (halves) {
    graph.Add(name + ".down", "conv2d",
              {{"out", width}, {"kernel", 1}, {"stride", 2}, {"bias", false}});
    const std::string input = skip;
    skip = graph.Add(name + ".down_bn", "batch_norm");
    graph.Add(name + ".conv1", "conv2d",
              {{"out", width},
               {"kernel", 3},
               {"stride", 2},
               {"padding", 1},
               {"bias", false}},
              {input});
  } else {
    graph.Add(name + ".conv1", "conv2d",
              {{"out", width}, {"kernel", 3}, {"padding", 1}, {"bias", false}});
  }
  graph.Add(name + ".bn1", "batch_norm");
  graph.Add(name + ".relu1", "relu");
  graph.Add(name + ".conv2", "conv2d",
            {{"out", width}, {"kernel", 3}, {"padding", 1}, {"bias", false}});
  const std::string branch = graph.Add(name + ".bn2", "batch_norm");
  graph.Add(name + ".add", "add", {}, {branch, skip});
  graph.Add(name + ".relu2", "relu");
}

}  // namespace

absl::StatusOr<v1::Graph> BuildResnetSmall(
    absl::Span<const v1::Arg* const> args, const ModelEnds& ends) {
  ArgReader reader(kWho, args, kArgs);
  const std::vector<int64_t> widths =
      reader.Ints("widths", {16, 32}, 1, 65536, /*most=*/8);
  const int64_t blocks = reader.Int("blocks", 1, 1, 1000);
  const double dropout = reader.Real("dropout", 0, 0, 1);
  RETURN_IF_ERROR(reader.status());
  if (widths.empty()) {
    return Mismatch(kWho, "widths", "[]", "at least one number");
  }
  RETURN_IF_ERROR(CheckClassifier(kWho, ends));
  RETURN_IF_ERROR(CheckImage(kWho, ends, 1));

  GraphBuilder graph("resnet_small", ends);
  graph.Add(
      "conv1", "conv2d",
      {{"out", widths[0]}, {"kernel", 3}, {"padding", 1}, {"bias", false}});
  graph.Add("bn1", "batch_norm");
  graph.Add("relu1", "relu");
  for (size_t group = 0; group < widths.size(); ++group) {
    for (int64_t block = 0; block < blocks; ++block) {
      AddBlock(graph, absl::StrCat("group", group + 1, ".block", block + 1),
               widths[group], /*halves=*/group > 0 && block == 0);
    }
  }
  graph.Add("pool", "global_avg_pool2d");
  graph.Add("flatten", "flatten");
  if (dropout > 0) graph.Add("dropout", "dropout", {{"p", dropout}});
  graph.Add("fc", "linear", {{"out", ends.classes}});
  graph.Add("loss", "softmax_cross_entropy");
  return graph.Take();
}

}  // namespace pipework
