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

  int64_t units() const { return minibatches * microbatches; }
  int64_t first_unit() const { return first_minibatch * microbatches; }
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
  // Versions of each stage after this segment.
  std::vector<int64_t> last_versions() const;
};

// One row a line: "s0  F0 F1 B0 ..."; with replicas "s0.r1  F1 ...".
std::string ToString(const Program& program, bool transfers = false);

// 1F1B of PipeDream, algorithms of section 1.4:
// forwards that precede the alternating phase on stage s. in_flight 0 is NOAM;
// otherwise NOAM's depth at stage 0 is replaced by it and later stages shrink
// by as much, but never below 0.
int Warmup(const PipelineShape& shape, StageId stage);

// Most weight versions that stage s holds under stashing: Warmup + 1 updates
// reach, in updates (accumulate > 1 needs fewer).
int Versions(const PipelineShape& shape, StageId stage, int accumulate = 1);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PROGRAM_H_
