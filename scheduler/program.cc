#include "scheduler/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/check.h"

namespace pipework {
namespace {

// Rounds up; both are positive or zero.
int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Workers of the stages before `stage`.
int WorkersBefore(const PipelineShape& shape, StageId stage) {
  int workers = 0;
  for (int t = 0; t < stage.value(); ++t) workers += shape.replicas[t];
  return workers;
}

// Units in an update of the stage, over all replicas.
int64_t UnitsPerUpdate(const Program& program, StageId stage) {
  const Segment& segment = program.segment;
  return program.unit_is_microbatch
             ? int64_t{segment.accumulate} * segment.microbatches
             : int64_t{segment.accumulate} *
                   program.shape.replicas[stage.value()];
}

bool IsCompute(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kWeightGradient || kind == ActionKind::kEvaluate;
}

}  // namespace

int PipelineShape::workers() const {
  int workers = 0;
  for (const int r : replicas) workers += r;
  return workers;
}

int64_t Segment::first_version(StageId stage) const {
  if (first_versions.empty()) return 0;
  return first_versions[stage.value()];
}

const Row& Program::row(StageId stage, ReplicaId replica) const {
  const size_t index = WorkersBefore(shape, stage) + replica.value();
  PIPE_CHECK(index < rows.size());
  PIPE_CHECK(rows[index].stage == stage && rows[index].replica == replica);
  return rows[index];
}

ReplicaId Program::owner(StageId stage, int64_t unit) const {
  const int64_t turn = unit_is_microbatch ? unit % segment.microbatches : unit;
  return ReplicaId{static_cast<int>(turn % shape.replicas[stage.value()])};
}

int64_t Program::updates(StageId stage) const {
  if (segment.evaluation) return 0;
  return CeilDivide(segment.units(), UnitsPerUpdate(*this, stage));
}

UnitRange Program::units_of_update(StageId stage, int64_t update) const {
  const int64_t index = update - segment.first_version(stage);
  PIPE_CHECK(index >= 0 && index < updates(stage));
  const int64_t size = UnitsPerUpdate(*this, stage);
  const int64_t first = segment.first_unit();
  const int64_t end = first + segment.units();
  return {first + index * size, std::min(first + (index + 1) * size, end)};
}

std::vector<int64_t> Program::last_versions() const {
  std::vector<int64_t> versions;
  for (int s = 0; s < shape.stages(); ++s) {
    versions.push_back(segment.first_version(StageId{s}) + updates(StageId{s}));
  }
  return versions;
}

std::string RowName(const PipelineShape& shape, StageId stage,
                    ReplicaId replica) {
  if (shape.replicas[stage.value()] == 1) {
    return absl::StrCat("s", stage.value());
  }
  return absl::StrCat("s", stage.value(), ".r", replica.value());
}

std::string ToString(const Program& program, bool all) {
  size_t width = 0;
  for (const Row& row : program.rows) {
    width =
        std::max(width, RowName(program.shape, row.stage, row.replica).size());
  }
  std::string text;
  for (const Row& row : program.rows) {
    std::string name = RowName(program.shape, row.stage, row.replica);
    name.resize(width, ' ');
    absl::StrAppend(&text, name, " ");
    for (const Action& action : row.actions) {
      if (!all && !IsCompute(action.kind)) continue;
      absl::StrAppend(&text, " ", ToString(action, row.stage));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::vector<StageEdge> EdgesOf(const PipelineShape& shape) {
  std::vector<StageEdge> edges = shape.edges;
  if (edges.empty()) {
    for (int s = 0; s + 1 < shape.stages(); ++s) {
      edges.push_back({StageId{s}, StageId{s + 1}, true});
    }
  }
  std::sort(edges.begin(), edges.end(),
            [](const StageEdge& a, const StageEdge& b) {
              return a.from == b.from ? a.to < b.to : a.from < b.from;
            });
  return edges;
}

int Warmup(const PipelineShape& shape, StageId stage) {
  // The letters of the header: N workers, W of them before this stage.
  const int64_t N = shape.workers();
  const int64_t W = WorkersBefore(shape, stage);
  const int64_t r0 = shape.replicas[0];
  const int64_t rs = shape.replicas[stage.value()];
  const int64_t noam = CeilDivide(N, r0);
  const int64_t n = shape.in_flight == 0 ? noam : shape.in_flight;
  if (n <= noam) {
    const int64_t room = N - (noam - n) * r0 - 1 - W;
    return static_cast<int>(std::max<int64_t>(0, room) / rs);
  }
  const int64_t behind = N - W - rs;
  if (behind == 0) return 0;
  return static_cast<int>(((N - 1 - W) * (N - r0) + (n - noam) * r0 * behind) /
                          ((N - r0) * rs));
}

int Versions(const PipelineShape& shape, StageId stage, int accumulate) {
  return static_cast<int>(CeilDivide(Warmup(shape, stage), accumulate)) + 1;
}

}  // namespace pipework
