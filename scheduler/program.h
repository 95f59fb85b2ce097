// A program: what every stage replica does in one segment, in order.
//
// A segment is the work between two drains: an epoch, or less where a
// checkpoint or an evaluation falls inside it. Programs are compiled segment
// by segment, by the same pure function on every node, so a run of any length
// costs the memory of one segment.
#ifndef PIPEWORK_SCHEDULER_PROGRAM_H_
#define PIPEWORK_SCHEDULER_PROGRAM_H_

#include <string>
#include <vector>

#include "proto/ids.h"
#include "scheduler/action.h"

namespace pipework {

// Tensors go from stage `from` to stage `to`. Labels and integer tensors have
// no gradient.
struct StageEdge {
  StageId from;
  StageId to;
  bool has_gradient = true;
};

// The pipeline that a program runs on.
struct PipelineShape {
  std::vector<int> replicas;     // of each stage, in stage order
  std::vector<StageEdge> edges;  // empty: a chain
  int in_flight = 0;             // units admitted per replica of stage 0; 0:
                                 // NOAM
  // Units of a round that each replica of a stage runs, by stage and replica;
  // a stage without an entry: one each.
  std::vector<std::vector<int>> shares;

  int stages() const { return static_cast<int>(replicas.size()); }
  int workers() const;  // sum of replicas
};

// Which units a segment runs, and from where it counts.
struct Segment {
  int64_t first_minibatch = 0;  // numbered through the run
  int64_t minibatches = 0;
  int microbatches = 1;  // per minibatch; 1 for asynchronous schedules
  int accumulate = 1;    // minibatches of each replica per update
  std::vector<int64_t> first_versions;  // of each stage; empty: all 0
  bool evaluation = false;  // E instead of F, B, U; units start at 0
  bool save = false;        // ends with S after the drain

  // An evaluation takes whole minibatches, whatever the schedule takes.
  int64_t units() const {
    return evaluation ? minibatches : minibatches * microbatches;
  }
  int64_t first_unit() const {
    return evaluation ? 0 : first_minibatch * microbatches;
  }
  // Version of stage s before the segment.
  int64_t first_version(StageId stage) const;
};

// Units begin..end-1, numbered through the run.
struct UnitRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

struct Row {
  StageId stage;
  ReplicaId replica;
  std::vector<Action> actions;
};

struct Program {
  std::string schedule;
  std::string weights;
  bool unit_is_microbatch = false;
  PipelineShape shape;
  Segment segment;
  std::vector<Row> rows;  // by stage, then replica

  // REQUIRES: the row exists.
  const Row& row(StageId stage, ReplicaId replica) const;
  // The replica that runs `unit`, forward and backward: unit mod r_s; where
  // units are microbatches, microbatch mod r_s.
  ReplicaId owner(StageId stage, int64_t unit) const;
  // The units of all replicas whose gradients update `update` sums. Numbered
  // as U is: through the run. REQUIRES: the update is one of this segment's.
  UnitRange units_of_update(StageId stage, int64_t update) const;
  // Updates of the stage in this segment.
  int64_t updates(StageId stage) const;
  // Versions of each stage after this segment.
  std::vector<int64_t> last_versions() const;
};

// One row a line: "s0  F0 F1 B0 ..."; with replicas "s0.r1  F1 ...". Without
// `all` as the papers print it: F, B, W and E only.
std::string ToString(const Program& program, bool all = false);

// "s0", or "s0.r1" where the stage has replicas.
std::string RowName(const PipelineShape& shape, StageId stage,
                    ReplicaId replica);

// The edges of `shape`, by producer, then consumer; a chain where it has none.
std::vector<StageEdge> EdgesOf(const PipelineShape& shape);

// 1F1B of PipeDream, algorithms of section 1.4: forwards that precede the
// alternating phase on stage s, per replica,
//
//   warm(s) = floor((N - 1 - sum over t < s of r_t) / r_s),   N = sum of r_t.
//
// in_flight 0 is NOAM = warm(0) + 1. A smaller in_flight n counts
// (NOAM - n) r_0 units less at every stage, never below 0; with 1 every stage
// finishes a unit before it begins the next. A larger one deepens each stage in
// proportion to the workers behind it, which hides transfers; the last stage
// stays at 0.
int Warmup(const PipelineShape& shape, StageId stage);

// Most weight versions that stage s holds under stashing, the newest included:
// one more than the updates that Warmup units reach across,
// ceil(warm(s) / accumulate) + 1.
int Versions(const PipelineShape& shape, StageId stage, int accumulate = 1);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PROGRAM_H_
