#include "scheduler/passes/check_times.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

absl::Status CheckList(absl::string_view what, const std::vector<double>& list,
                       size_t wanted) {
  if (!list.empty() && list.size() != wanted) {
    return Mismatch("simulation", absl::StrCat("the length of ", what),
                    absl::StrCat(list.size()), absl::StrCat(wanted));
  }
  for (const double number : list) {
    if (!std::isfinite(number) || number < 0) {
      return Mismatch("simulation", absl::StrCat("an entry of ", what),
                      absl::StrCat(number), "0 or more");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> CountChunks(const Program& program) {
  const PipelineShape& shape = program.shape;
  size_t next = 0;
  for (int s = 0; s < shape.stages(); ++s) {
    for (int q = 0; q < shape.replicas[s]; ++q, ++next) {
      if (next < program.rows.size() &&
          program.rows[next].stage == StageId{s}) {
        continue;
      }
      return Mismatch("simulation", absl::StrCat("row ", next), "another",
                      absl::StrCat("that of stage ", s, " replica ", q));
    }
  }
  if (next != program.rows.size()) {
    return Mismatch("simulation", "the number of rows",
                    absl::StrCat(program.rows.size()), absl::StrCat(next));
  }
  int chunks = 1;
  for (const Row& row : program.rows) {
    for (const Action& action : row.actions) {
      chunks = std::max(chunks, action.chunk + 1);
      const int peer = action.peer_stage.value();
      const int replica = action.peer_replica.value();
      if (peer >= 0 && peer < shape.stages() && replica >= 0 &&
          replica < shape.replicas[peer] && action.chunk >= 0) {
        continue;
      }
      return Mismatch("simulation",
                      absl::StrCat("the other end of ", ToString(action)),
                      absl::StrCat("stage ", peer, " replica ", replica),
                      "one of the program");
    }
  }
  return chunks;
}

absl::Status CheckTimes(const Program& program, const ActionTimes& times) {
  const size_t stages = program.shape.replicas.size();
  const size_t rows = program.rows.size();
  const size_t edges = EdgesOf(program.shape).size();
  RETURN_IF_ERROR(CheckList("forward_seconds", times.forward_seconds, stages));
  RETURN_IF_ERROR(
      CheckList("backward_seconds", times.backward_seconds, stages));
  RETURN_IF_ERROR(CheckList("update_seconds", times.update_seconds, stages));
  RETURN_IF_ERROR(
      CheckList("all_reduce_seconds", times.all_reduce_seconds, stages));
  RETURN_IF_ERROR(CheckList("weight_gradient_seconds",
                            times.weight_gradient_seconds, stages));
  RETURN_IF_ERROR(CheckList("transfer_seconds", times.transfer_seconds, edges));
  RETURN_IF_ERROR(CheckList("message_seconds", times.message_seconds, edges));
  RETURN_IF_ERROR(CheckList("row_scale", times.row_scale, rows));
  RETURN_IF_ERROR(
      CheckList("action_seconds", {times.action_seconds}, /*wanted=*/1));
  if (!times.chunk_shares.empty() && times.chunk_shares.size() != stages) {
    return Mismatch("simulation", "the length of chunk_shares",
                    absl::StrCat(times.chunk_shares.size()),
                    absl::StrCat(stages));
  }
  for (const std::vector<double>& shares : times.chunk_shares) {
    RETURN_IF_ERROR(CheckList("chunk_shares", shares, shares.size()));
  }
  if (!times.core_group.empty() && times.core_group.size() != rows) {
    return Mismatch("simulation", "the length of core_group",
                    absl::StrCat(times.core_group.size()), absl::StrCat(rows));
  }
  for (const int group : times.core_group) {
    if (group < 0 || group >= static_cast<int>(times.group_cores.size()) ||
        !(times.group_cores[group] > 0)) {
      return Mismatch("simulation", "a core group", absl::StrCat(group),
                      "one with cores above 0");
    }
  }
  RETURN_IF_ERROR(CheckJitter(times.jitter));
  return CheckNetwork(times.network, program);
}

}  // namespace pipework
