#include "scheduler/passes/refuse.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace pipework {
namespace {

// Actions shown before and after the one in brackets.
constexpr size_t kAround = 8;

}  // namespace

absl::Status RefuseRow(const Program& program, const Row& row, size_t at,
                       absl::string_view problem) {
  const bool replicated = program.shape.replicas[row.stage.value()] > 1;
  const size_t begin = at > kAround ? at - kAround : 0;
  const size_t end = std::min(row.actions.size(), at + kAround + 1);
  std::string text = absl::StrCat(
      "schedule: stage ", row.stage.value(),
      replicated ? absl::StrCat(" replica ", row.replica.value()) : "", " ",
      problem, "; the row is\n    ",
      RowName(program.shape, row.stage, row.replica), " ");
  if (begin > 0) absl::StrAppend(&text, " ...");
  for (size_t i = begin; i < end; ++i) {
    const std::string action = ToString(row.actions[i], row.stage);
    absl::StrAppend(&text, " ", i == at ? "[" : "", action, i == at ? "]" : "");
  }
  if (at == row.actions.size()) absl::StrAppend(&text, " []");
  if (end < row.actions.size()) absl::StrAppend(&text, " ...");
  return absl::InvalidArgumentError(text);
}

}  // namespace pipework
