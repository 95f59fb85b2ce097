#include "scheduler/testing/programs.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "proto/check.h"
#include "scheduler/compile.h"

namespace pipework {
namespace testing {

PipelineShape ChainOf(std::vector<int> replicas, int in_flight) {
  PipelineShape shape;
  shape.replicas = std::move(replicas);
  shape.in_flight = in_flight;
  return shape;
}

Segment SegmentOf(int64_t minibatches, int microbatches, int accumulate) {
  Segment segment;
  segment.minibatches = minibatches;
  segment.microbatches = microbatches;
  segment.accumulate = accumulate;
  return segment;
}

Program MustCompile(const std::string& schedule, const PipelineShape& shape,
                    const Segment& segment) {
  absl::StatusOr<Program> program = Compile({schedule, ""}, shape, segment);
  if (!program.ok()) {
    std::fprintf(stderr, "%s\n", program.status().ToString().c_str());
  }
  PIPE_CHECK(program.ok());
  return *std::move(program);
}

void ForEachShape(int stages, int most,
                  const std::function<void(const PipelineShape&)>& body) {
  for (int n = 1; n <= stages; ++n) {
    std::vector<int> replicas(n, 1);
    while (true) {
      body(ChainOf(replicas));
      int digit = n - 1;
      while (digit >= 0 && replicas[digit] == most) replicas[digit--] = 1;
      if (digit < 0) break;
      ++replicas[digit];
    }
  }
}

std::string RowText(const Program& program, int stage, int replica) {
  std::string text;
  for (const Action& action :
       program.row(StageId{stage}, ReplicaId{replica}).actions) {
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    ToString(action, StageId{stage}));
  }
  return text;
}

std::vector<Action> ActionsOf(const Program& program, int stage, int replica,
                              std::vector<ActionKind> kinds) {
  std::vector<Action> actions;
  for (const Action& action :
       program.row(StageId{stage}, ReplicaId{replica}).actions) {
    if (std::find(kinds.begin(), kinds.end(), action.kind) != kinds.end()) {
      actions.push_back(action);
    }
  }
  return actions;
}

}  // namespace testing
}  // namespace pipework
