#include "scheduler/compile.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/passes/assign_versions.h"
#include "scheduler/passes/insert_all_reduces.h"
#include "scheduler/passes/insert_drain.h"
#include "scheduler/passes/insert_releases.h"
#include "scheduler/passes/insert_transfers.h"
#include "scheduler/passes/validate.h"
#include "scheduler/schedules/schedule.h"
#include "scheduler/versioning/policy.h"

namespace pipework {
namespace {

// Far above any machine, and far below what would not fit into memory.
constexpr int kMostStages = 4096;
constexpr int kMostReplicas = 4096;
constexpr int64_t kMostUnits = int64_t{1} << 40;

// REQUIRES: replicas are checked.
absl::Status CheckShares(const PipelineShape& shape) {
  for (size_t s = 0; s < shape.shares.size(); ++s) {
    const std::string who = absl::StrCat("schedule: stage ", s);
    if (static_cast<int>(s) >= shape.stages()) {
      return Mismatch("schedule", "the number of stages with shares",
                      absl::StrCat(shape.shares.size()),
                      absl::StrCat("at most ", shape.stages()));
    }
    if (shape.shares[s].empty()) continue;
    if (static_cast<int>(shape.shares[s].size()) != shape.replicas[s]) {
      return Mismatch(
          who, "the number of shares", absl::StrCat(shape.shares[s].size()),
          absl::StrCat(shape.replicas[s], ", one for each replica"));
    }
    int64_t sum = 0;
    for (const int share : shape.shares[s]) {
      if (share < 1) {
        return Mismatch(who, "a share", absl::StrCat(share), "1 or more");
      }
      sum += share;
    }
    if (sum > kMostReplicas) {
      return Mismatch(who, "the sum of the shares", absl::StrCat(sum),
                      absl::StrCat("at most ", kMostReplicas));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const PipelineShape& shape) {
  if (shape.stages() < 1 || shape.stages() > kMostStages) {
    return Mismatch("schedule", "the number of stages",
                    absl::StrCat(shape.stages()),
                    absl::StrCat("1 to ", kMostStages));
  }
  for (int s = 0; s < shape.stages(); ++s) {
    if (shape.replicas[s] < 1 || shape.replicas[s] > kMostReplicas) {
      return Mismatch("schedule", absl::StrCat("replicas of stage ", s),
                      absl::StrCat(shape.replicas[s]),
                      absl::StrCat("1 to ", kMostReplicas));
    }
  }
  RETURN_IF_ERROR(CheckShares(shape));
  if (shape.in_flight < 0) {
    return Mismatch("schedule", "in_flight", absl::StrCat(shape.in_flight),
                    "0 (NOAM) or more");
  }
  const std::vector<StageEdge> edges = EdgesOf(shape);
  for (size_t i = 0; i < edges.size(); ++i) {
    const StageEdge& edge = edges[i];
    if (edge.from < StageId{0} || edge.to <= edge.from ||
        edge.to.value() >= shape.stages()) {
      return Mismatch("schedule", "an edge between stages",
                      absl::StrCat(edge.from.value(), " to ", edge.to.value()),
                      "one from an earlier to a later stage");
    }
    if (i > 0 && edges[i - 1].from == edge.from && edges[i - 1].to == edge.to) {
      return Mismatch("schedule",
                      absl::StrCat("the edge from stage ", edge.from.value(),
                                   " to stage ", edge.to.value()),
                      "there twice", "one for each pair");
    }
  }
  return absl::OkStatus();
}

// Layers in chunks are a chain, on as many replicas everywhere.
absl::Status CheckChunks(const PipelineShape& shape,
                         const ScheduleEntry& schedule) {
  if (shape.chunks < 1 || shape.chunks > kMostStages) {
    return Mismatch("schedule", "chunks", absl::StrCat(shape.chunks),
                    absl::StrCat("1 to ", kMostStages));
  }
  if (shape.chunks == 1) return absl::OkStatus();
  const std::string who = absl::StrCat("schedule \"", schedule.name, "\"");
  if (schedule.fixed_chunks == 1) {
    return Mismatch(who, "chunks", absl::StrCat(shape.chunks), "1",
                    "interleaved runs several on a stage");
  }
  if (!shape.edges.empty()) {
    return Mismatch(who, "the stages", "a graph with edges of its own",
                    "a chain");
  }
  return absl::OkStatus();
}

absl::Status CheckSegment(const PipelineShape& shape, const Segment& segment) {
  const auto wrong = [](absl::string_view what, int64_t got,
                        absl::string_view wanted) {
    return Mismatch("schedule", what, absl::StrCat(got), wanted);
  };
  if (segment.first_minibatch < 0) {
    return wrong("first_minibatch", segment.first_minibatch, "0 or more");
  }
  if (segment.microbatches < 1) {
    return wrong("microbatches", segment.microbatches, "1 or more");
  }
  if (segment.accumulate < 1) {
    return wrong("accumulate", segment.accumulate, "1 or more");
  }
  const int64_t most = kMostUnits / segment.microbatches;
  if (segment.minibatches < 0 || segment.minibatches > most ||
      segment.first_minibatch > most) {
    return wrong("minibatches",
                 std::max(segment.minibatches, segment.first_minibatch),
                 absl::StrCat("0 to ", most));
  }
  if (!segment.first_versions.empty() &&
      segment.first_versions.size() != shape.replicas.size()) {
    return wrong("the number of first_versions",
                 static_cast<int64_t>(segment.first_versions.size()),
                 absl::StrCat("one for each of ", shape.stages(), " stages"));
  }
  if (segment.evaluation && segment.save) {
    return Mismatch("schedule", "save", "true in an evaluation",
                    "false: an evaluation changes nothing");
  }
  return absl::OkStatus();
}

std::vector<Action> Evaluation(const Program& program, StageId stage,
                               ReplicaId replica) {
  std::vector<Action> actions;
  for (const int64_t unit : OwnUnits(program, stage, replica)) {
    for (int chunk = 0; chunk < program.shape.chunks; ++chunk) {
      actions.push_back(UnitAction(ActionKind::kEvaluate, program, unit));
      actions.back().chunk = chunk;
    }
  }
  return actions;
}

// What the schedule says, before the passes.
Program BuildRows(const ScheduleEntry& schedule, const Recipe& recipe,
                  const PipelineShape& shape, const Segment& segment) {
  Program program;
  program.schedule = recipe.schedule;
  program.weights = recipe.weights;
  program.unit_is_microbatch =
      schedule.unit_is_microbatch && !segment.evaluation;
  program.shape = shape;
  program.segment = segment;
  program.turns.resize(shape.replicas.size());
  for (int s = 0; s < shape.stages(); ++s) {
    if (shape.has_shares(StageId{s})) {
      program.turns[s] = TurnsOf(shape, StageId{s});
    }
  }
  const ScheduleFn build = segment.evaluation ? &Evaluation : schedule.build;
  for (int s = 0; s < shape.stages(); ++s) {
    for (int q = 0; q < shape.replicas[s]; ++q) {
      program.rows.push_back(
          {StageId{s}, ReplicaId{q}, build(program, StageId{s}, ReplicaId{q})});
    }
  }
  return program;
}

// An unknown name is the caller's mistake, not a thing that is missing.
absl::Status AsArgument(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::InvalidArgumentError(status.message())
                                  : status;
}

}  // namespace

absl::StatusOr<Recipe> CheckRecipe(const Recipe& recipe, int microbatches) {
  const absl::StatusOr<const ScheduleEntry*> found =
      FindSchedule(recipe.schedule);
  if (!found.ok()) return AsArgument(found.status());
  const ScheduleEntry* schedule = *found;
  Recipe checked = recipe;
  if (checked.weights.empty()) {
    checked.weights = std::string(schedule->weights.front());
  }
  RETURN_IF_ERROR(AsArgument(FindPolicy(checked.weights).status()));
  if (std::find(schedule->weights.begin(), schedule->weights.end(),
                checked.weights) == schedule->weights.end()) {
    return Mismatch(absl::StrCat("schedule \"", schedule->name, "\""),
                    "weights", absl::StrCat("\"", checked.weights, "\""),
                    absl::StrJoin(schedule->weights, " or "),
                    schedule->why_these_weights);
  }
  if (!schedule->unit_is_microbatch && microbatches > 1) {
    return Mismatch(absl::StrCat("schedule \"", schedule->name, "\""),
                    "microbatches", absl::StrCat(microbatches), "1",
                    "it takes whole minibatches; use schedule flush to split "
                    "them");
  }
  return checked;
}

namespace {

// A recipe, shape and segment that fit together, and what they name.
struct Checked {
  Recipe recipe;
  PipelineShape shape;  // with what the schedule fixes
  const ScheduleEntry* schedule = nullptr;
  const Policy* policy = nullptr;
};

absl::StatusOr<Checked> Check(const Recipe& recipe, const PipelineShape& shape,
                              const Segment& segment) {
  RETURN_IF_ERROR(CheckShape(shape));
  RETURN_IF_ERROR(CheckSegment(shape, segment));
  Checked checked;
  ASSIGN_OR_RETURN(checked.recipe, CheckRecipe(recipe, segment.microbatches));
  ASSIGN_OR_RETURN(checked.schedule, FindSchedule(checked.recipe.schedule));
  ASSIGN_OR_RETURN(checked.policy, FindPolicy(checked.recipe.weights));
  const ScheduleEntry& schedule = *checked.schedule;
  const std::string who = absl::StrCat("schedule \"", schedule.name, "\"");
  if (schedule.fixed_in_flight > 0 && shape.in_flight > 0 &&
      shape.in_flight != schedule.fixed_in_flight) {
    return Mismatch(who, "in_flight", absl::StrCat(shape.in_flight),
                    absl::StrCat(schedule.fixed_in_flight),
                    "1f1b takes any number");
  }
  RETURN_IF_ERROR(CheckChunks(shape, schedule));
  checked.shape = ShapeFor(checked.recipe, shape);
  if (schedule.check != nullptr && !segment.evaluation) {
    RETURN_IF_ERROR(schedule.check(checked.shape, segment));
  }
  return checked;
}

}  // namespace

absl::Status CheckNumbers(const Recipe& recipe, const PipelineShape& shape,
                          const Segment& segment) {
  return Check(recipe, shape, segment).status();
}

absl::Status CheckRunnable(const Recipe& recipe) {
  const absl::StatusOr<const ScheduleEntry*> found =
      FindSchedule(recipe.schedule);
  if (!found.ok()) return AsArgument(found.status());
  if ((*found)->not_runnable.empty()) return absl::OkStatus();
  std::vector<absl::string_view> runnable;
  for (const ScheduleEntry& entry : Schedules()) {
    if (entry.not_runnable.empty()) runnable.push_back(entry.name);
  }
  return absl::UnimplementedError(absl::StrCat(
      "schedule \"", recipe.schedule, "\" cannot be run yet: ",
      (*found)->not_runnable, "; run one of ", absl::StrJoin(runnable, ", ")));
}

bool TakesMicrobatches(absl::string_view schedule) {
  const absl::StatusOr<const ScheduleEntry*> found = FindSchedule(schedule);
  return found.ok() && (*found)->unit_is_microbatch;
}

bool IsSynchronous(absl::string_view schedule) {
  const absl::StatusOr<const ScheduleEntry*> found = FindSchedule(schedule);
  return found.ok() && (*found)->synchronous;
}

PipelineShape ShapeFor(const Recipe& recipe, PipelineShape shape) {
  const absl::StatusOr<const ScheduleEntry*> found =
      FindSchedule(recipe.schedule);
  if (!found.ok()) return shape;
  const ScheduleEntry& schedule = **found;
  if (schedule.fixed_in_flight > 0) shape.in_flight = schedule.fixed_in_flight;
  if (schedule.fixed_chunks > 0) shape.chunks = schedule.fixed_chunks;
  shape.folded = schedule.folded;
  return shape;
}

absl::StatusOr<Held> MostHeld(const Recipe& recipe, const PipelineShape& shape,
                              const Segment& segment, StageId stage) {
  ASSIGN_OR_RETURN(const Checked checked, Check(recipe, shape, segment));
  Held held;
  held.units = checked.schedule->in_flight(checked.shape, segment, stage);
  held.versions =
      checked.policy->MostVersions(checked.shape, stage, segment.accumulate);
  return held;
}

absl::StatusOr<Program> Compile(const Recipe& recipe,
                                const PipelineShape& shape,
                                const Segment& segment) {
  ASSIGN_OR_RETURN(const Checked checked, Check(recipe, shape, segment));
  Program program =
      BuildRows(*checked.schedule, checked.recipe, checked.shape, segment);
  AssignVersions(*checked.policy, &program);
  InsertTransfers(&program);
  InsertAllReduces(&program);
  InsertReleases(&program);
  InsertDrain(&program);
  RETURN_IF_ERROR(Validate(program));
  return program;
}

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : Schedules()) {
    names.emplace_back(entry.name);
  }
  return names;
}

std::vector<std::string> WeightPolicyNames() {
  std::vector<std::string> names;
  for (const PolicyEntry& entry : Policies()) names.emplace_back(entry.name);
  return names;
}

}  // namespace pipework
