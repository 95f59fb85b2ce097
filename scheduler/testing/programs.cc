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
  return MustCompile(Recipe{schedule, ""}, shape, segment);
}

Program MustCompile(const Recipe& recipe, const PipelineShape& shape,
                    const Segment& segment) {
  absl::StatusOr<Program> program = Compile(recipe, shape, segment);
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

void ForEachShares(int stages, int most, int most_share,
                   const std::function<void(const PipelineShape&)>& body) {
  // What one stage may be.
  std::vector<std::vector<int>> kinds;
  for (int r = 1; r <= most; ++r) {
    std::vector<int> shares(r, 1);
    while (true) {
      const std::vector<int> normal = NormalShares(shares);
      if (normal == shares) kinds.push_back(shares);
      if (normal.empty() && shares[0] == 1) kinds.push_back(shares);
      int digit = r - 1;
      while (digit >= 0 && shares[digit] == most_share) shares[digit--] = 1;
      if (digit < 0) break;
      ++shares[digit];
    }
  }
  for (int n = 1; n <= stages; ++n) {
    std::vector<size_t> at(n, 0);
    while (true) {
      PipelineShape shape;
      for (const size_t kind : at) {
        shape.replicas.push_back(static_cast<int>(kinds[kind].size()));
        shape.shares.push_back(NormalShares(kinds[kind]));
      }
      body(shape);
      int digit = n - 1;
      while (digit >= 0 && at[digit] + 1 == kinds.size()) at[digit--] = 0;
      if (digit < 0) break;
      ++at[digit];
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
