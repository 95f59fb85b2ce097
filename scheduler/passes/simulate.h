// Runs a program on a clock: a discrete-event simulation.
//
// Every row runs its actions in order. Sends start and go on, receives wait for
// the message, an all-reduce for all replicas. Rows that share cores slow each
// other down: with b of them busy on c cores each runs at rate min(1, c / b).
// Cost: actions times rows. Pure.
#ifndef PIPEWORK_SCHEDULER_PASSES_SIMULATE_H_
#define PIPEWORK_SCHEDULER_PASSES_SIMULATE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/program.h"

namespace pipework {

struct ActionTimes {
  // By stage; an empty list is all zeros. In seconds, or in any other unit.
  std::vector<double> forward_seconds;  // also of an evaluation
  std::vector<double> backward_seconds;
  std::vector<double> update_seconds;
  std::vector<double> all_reduce_seconds;
  // One way over edge i of EdgesOf(shape), for activations and for gradients.
  std::vector<double> transfer_seconds;
  // What each end of a message over edge i computes for it, before it leaves
  // and after it has come.
  std::vector<double> message_seconds;
  // Of W, by stage, where a backward is split.
  std::vector<double> weight_gradient_seconds;
  // By row: what all its computing is multiplied with; empty: 1.
  std::vector<double> row_scale;
  // Of every action, beside what it computes.
  double action_seconds = 0;
  // By row: the group of cores that it computes on. Empty: each its own core.
  std::vector<int> core_group;
  // By group: how many rows it runs at full speed.
  std::vector<double> group_cores;
};

struct Timeline {
  struct Span {
    size_t row;
    ActionKind kind;  // F, B or E
    int64_t unit;
    double begin;
    double end;
  };
  std::vector<Span> spans;           // by end
  double makespan = 0;               // first forward to last backward
  std::vector<double> busy_seconds;  // by row: wall time inside F, B and E

  // Share of the rows' time within the makespan that is idle.
  double bubble() const;
};

// InvalidArgument: the program waits for ever, or a list has another length
// than it needs.
absl::StatusOr<Timeline> Simulate(const Program& program,
                                  const ActionTimes& times);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_SIMULATE_H_
