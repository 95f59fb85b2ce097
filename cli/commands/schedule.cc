#include "cli/commands/schedule.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/exit_code.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/compile.h"
#include "scheduler/grid.h"

namespace pipework {
namespace {

constexpr int64_t kMaxStages = 1024;
constexpr int64_t kMaxUnits = 10000;

struct Request {
  Recipe recipe;
  PipelineShape shape;
  Segment segment;
};

// Flags -> what to compile. InvalidArgument names the flag.
absl::Status ParseFlags(const Invocation& invocation, Request* request) {
  int64_t stages = 0;
  int64_t minibatches = 0;
  int64_t microbatches = 0;
  int64_t in_flight = 0;
  int64_t chunks = 0;
  RETURN_IF_ERROR(invocation.GetInt("stages", 1, &stages));
  RETURN_IF_ERROR(invocation.GetInt("minibatches", 1, &minibatches));
  RETURN_IF_ERROR(invocation.GetInt("microbatches", 1, &microbatches));
  RETURN_IF_ERROR(invocation.GetInt("in-flight", 1, &in_flight));
  RETURN_IF_ERROR(invocation.GetInt("chunks", 1, &chunks));
  request->recipe.schedule = invocation.Get("schedule", "1f1b");
  request->recipe.weights = invocation.Get("weights");

  std::vector<int> replicas;
  if (invocation.Has("replicas")) {
    for (absl::string_view text :
         absl::StrSplit(invocation.Get("replicas"), ',')) {
      int count = 0;
      if (!absl::SimpleAtoi(text, &count) || count < 1 || count > kMaxStages) {
        return Mismatch("--replicas", "value",
                        absl::StrCat("\"", invocation.Get("replicas"), "\""),
                        "replicas of each stage, such as 2,1,1");
      }
      replicas.push_back(count);
    }
    if (stages > 0 && static_cast<int64_t>(replicas.size()) != stages) {
      return Mismatch("--replicas", "number of stages",
                      absl::StrCat(replicas.size()),
                      absl::StrCat(stages, ", as --stages says"));
    }
  } else {
    if (stages == 0) stages = 4;
    if (stages > kMaxStages) {
      return Mismatch("--stages", "value", absl::StrCat(stages),
                      absl::StrCat("at most ", kMaxStages));
    }
    replicas.assign(static_cast<size_t>(stages), 1);
  }
  request->shape.replicas = replicas;
  const bool takes = TakesMicrobatches(request->recipe.schedule);
  const bool synchronous = IsSynchronous(request->recipe.schedule);
  if (chunks == 0 && request->recipe.schedule == "interleaved") chunks = 2;
  request->shape.chunks =
      static_cast<int>(std::clamp<int64_t>(chunks, 1, kMaxUnits));
  request->shape.in_flight = static_cast<int>(std::min(in_flight, kMaxUnits));
  if (takes && minibatches == 0) minibatches = synchronous ? 1 : 3;
  if (takes && microbatches == 0) {
    // Twice as many as stages, for each replica of the first.
    microbatches = 2 * static_cast<int64_t>(replicas.size()) * replicas[0];
  }
  if (minibatches == 0) minibatches = microbatches > 1 ? 1 : 8;
  if (microbatches == 0) microbatches = 1;
  if (minibatches > kMaxUnits || microbatches > kMaxUnits ||
      minibatches * microbatches > kMaxUnits) {
    return Mismatch("--minibatches", "number of units",
                    absl::StrCat(minibatches, " x ", microbatches),
                    absl::StrCat("at most ", kMaxUnits));
  }
  request->segment.minibatches = minibatches;
  request->segment.microbatches = static_cast<int>(microbatches);
  return absl::OkStatus();
}

constexpr size_t kColumns = 80;

template <typename Numbers>
std::vector<std::string> Words(const Numbers& numbers) {
  std::vector<std::string> words;
  for (const auto number : numbers) words.push_back(absl::StrCat(number));
  return words;
}

// One line where it has room, else a line for each number of a stage, broken
// between stages.
std::string PerStage(const v1::Schedule& schedule) {
  const std::pair<absl::string_view, std::vector<std::string>> lists[] = {
      {"in flight", Words(schedule.in_flight())},
      {"versions held", Words(schedule.versions())},
      {"staleness", Words(schedule.staleness())}};
  std::vector<std::string> parts;
  std::string block = "per stage:\n";
  for (const auto& [what, words] : lists) {
    parts.push_back(absl::StrCat(what, " ", absl::StrJoin(words, " ")));
    std::string line = absl::StrFormat("  %-13s", what);
    for (const std::string& word : words) {
      if (line.size() + 1 + word.size() > kColumns) {
        absl::StrAppend(&block, line, "\n");
        line = std::string(15, ' ');
      }
      absl::StrAppend(&line, " ", word);
    }
    absl::StrAppend(&block, line, "\n");
  }
  std::string line =
      absl::StrCat("per stage: ", absl::StrJoin(parts, "; "), "\n");
  return line.size() <= kColumns + 1 ? line : block;
}

std::string Footer(const v1::Schedule& schedule, const Program& program) {
  // Of a whole stage; a column of the grid is the forward of one chunk.
  const int chunks = program.shape.chunks;
  const bool split = absl::StartsWith(schedule.schedule(), "zb");
  return absl::StrFormat(
      "\n%s with %s weights; units are %ses\n"
      "makespan %g (%s%s), bubble %.1f%%\n%s",
      schedule.schedule(), schedule.weights(), schedule.unit(),
      schedule.makespan(), split ? "F = B = W = 1" : "F = 1, B = 2",
      chunks > 1 ? absl::StrCat("; a column is 1/", chunks) : "",
      100 * schedule.bubble(), PerStage(schedule));
}

}  // namespace

int ScheduleCommand(Invocation& invocation) {
  const Output& out = *invocation.out;
  Request request;
  const absl::Status usage = ParseFlags(invocation, &request);
  if (!usage.ok()) return out.Error(kExitUsage, "USAGE", usage.message());
  const absl::StatusOr<Program> program =
      Compile(request.recipe, request.shape, request.segment);
  if (!program.ok()) return out.Error(program.status());
  const absl::StatusOr<v1::Schedule> schedule = ToSchedule(*program);
  if (!schedule.ok()) return out.Error(schedule.status());

  if (invocation.Has("out")) {
    const std::string file = invocation.Get("out");
    const absl::StatusOr<std::string> picture = SvgGrid(*program);
    if (!picture.ok()) return out.Error(picture.status());
    std::ofstream svg(file, std::ios::binary | std::ios::trunc);
    svg << *picture;
    svg.close();
    if (!svg) {
      return out.Error(kExitUsage, "UNWRITABLE_FILE",
                       absl::StrCat("--out: ", file, " cannot be written"));
    }
    out.Note(absl::StrCat("wrote ", file));
  }
  out.Json(*schedule, "Schedule");
  if (out.format == OutputFormat::kJson) return kExitOk;
  if (invocation.Has("transfers")) {
    out.Text(ToString(*program, /*all=*/true));
  } else {
    const absl::StatusOr<std::string> grid = TextGrid(*program);
    if (!grid.ok()) return out.Error(grid.status());
    out.Text(*grid);
  }
  out.Text(Footer(*schedule, *program));
  return kExitOk;
}

}  // namespace pipework
