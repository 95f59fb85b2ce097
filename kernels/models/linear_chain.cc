#include "kernels/models/linear_chain.h"

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "kernels/models/graph_builder.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr char kWho[] = "model linear_chain";
constexpr absl::string_view kArgs[] = {"depth"};

}  // namespace

absl::StatusOr<v1::Graph> BuildLinearChain(
    absl::Span<const v1::Arg* const> args, const ModelEnds& ends) {
  ArgReader reader(kWho, args, kArgs);
  const int64_t depth = reader.Int("depth", 3, 1, 10000);
  RETURN_IF_ERROR(reader.status());
  if (ends.sample != Shape({1})) {
    return Mismatch(kWho, "shape of a sample", ends.sample.ToString(), "[1]");
  }
  if (ends.label.elements() != 1) {
    return Mismatch(kWho, "shape of a label", ends.label.ToString(), "[]");
  }

  GraphBuilder graph("linear_chain", ends);
  for (int64_t i = 0; i < depth; ++i) {
    graph.Add(absl::StrCat("w", i), "linear", {{"out", 1}, {"bias", false}});
  }
  graph.Add("loss", "mse");
  return graph.Take();
}

}  // namespace pipework
