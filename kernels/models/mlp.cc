#include "kernels/models/mlp.h"

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "kernels/models/graph_builder.h"
#include "kernels/models/model_checks.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr char kWho[] = "model mlp";
constexpr absl::string_view kArgs[] = {"hidden", "dropout"};

}  // namespace

absl::StatusOr<v1::Graph> BuildMlp(absl::Span<const v1::Arg* const> args,
                                   const ModelEnds& ends) {
  ArgReader reader(kWho, args, kArgs);
  const std::vector<int64_t> hidden =
      reader.Ints("hidden", {64, 64}, 1, int64_t{1} << 20, /*most=*/1000);
  const double dropout = reader.Real("dropout", 0, 0, 1);
  RETURN_IF_ERROR(reader.status());
  RETURN_IF_ERROR(CheckClassifier(kWho, ends));

  GraphBuilder graph("mlp", ends);
  graph.Add("flatten", "flatten");
  int number = 1;
  for (int64_t features : hidden) {
    graph.Add(absl::StrCat("fc", number), "linear", {{"out", features}});
    graph.Add(absl::StrCat("relu", number), "relu");
    if (dropout > 0) {
      graph.Add(absl::StrCat("drop", number), "dropout", {{"p", dropout}});
    }
    ++number;
  }
  graph.Add(absl::StrCat("fc", number), "linear", {{"out", ends.classes}});
  graph.Add("loss", "softmax_cross_entropy");
  return graph.Take();
}

}  // namespace pipework
