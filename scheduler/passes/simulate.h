// Runs a program on a clock: a discrete-event simulation.
//
// Every row runs its actions in order. Sends start and go on, receives wait for
// the message, an all-reduce for all replicas. Rows that share cores slow each
// other down: with b of them busy on c cores each runs at rate min(1, c / b).
// Messages share links where a network is given (network.h).
// Cost: actions, and the logarithm of the rows for each that takes time. Memory
// beside the program: the spans. Pure; equal arguments give equal bits.
#ifndef PIPEWORK_SCHEDULER_PASSES_SIMULATE_H_
#define PIPEWORK_SCHEDULER_PASSES_SIMULATE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/passes/jitter.h"
#include "scheduler/passes/network.h"
#include "scheduler/program.h"

namespace pipework {

// What a program needs to know of time; everything may be left out. Lists by
// edge: between stages without one (from the last stage to the next chunk of
// the first) the largest entry counts.
struct ActionTimes {
  // By stage; an empty list is all zeros. In seconds, or in any other unit.
  std::vector<double> forward_seconds;  // also of an evaluation
  std::vector<double> backward_seconds;
  std::vector<double> update_seconds;
  std::vector<double> all_reduce_seconds;
  // One way over edge i of EdgesOf(shape), for activations and for gradients,
  // on a link that nobody else uses.
  std::vector<double> transfer_seconds;
  // What each end of a message over edge i computes for it, before it leaves
  // and after it has come.
  std::vector<double> message_seconds;
  // Of W, by stage, where a backward is split.
  std::vector<double> weight_gradient_seconds;
  // By stage and chunk: the share of the stage's F, B and W that the chunk
  // takes. Empty: equal shares, 1 / chunks.
  std::vector<std::vector<double>> chunk_shares;
  // By row: what all its computing is multiplied with; empty: 1.
  std::vector<double> row_scale;
  // Of every action, beside what it computes.
  double action_seconds = 0;
  // By row: the group of cores that it computes on. Empty: each its own core.
  std::vector<int> core_group;
  // By group: how many rows it runs at full speed.
  std::vector<double> group_cores;
  // Links that messages share, beside transfer_seconds. Without levels: none.
  Network network;
  // Varies what F, B, W, E and U take.
  Jitter jitter;
};

struct Timeline {
  struct Span {
    size_t row;
    ActionKind kind;  // F, B, W or E
    int64_t unit;
    double begin;
    double end;
    int chunk = 0;
    WeightVersion version{-1};
  };
  // What went over the network.
  struct Message {
    size_t from;  // rows
    size_t to;
    ActionKind kind;  // >F, >B, or A: a part of a ring
    int64_t number;
    double bytes;
    double begin;  // on its first link
    double end;    // it has come
  };
  std::vector<Span> spans;           // by end
  std::vector<Message> messages;     // by when they were sent
  double makespan = 0;               // first span's begin to the last one's end
  std::vector<double> busy_seconds;  // by row: wall time inside its spans

  // Share of the rows' time within the makespan that is idle.
  double bubble() const;
};

// InvalidArgument: the program waits for ever, a list has another length than
// it needs, or a time is negative or no number.
absl::StatusOr<Timeline> Simulate(const Program& program,
                                  const ActionTimes& times);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_SIMULATE_H_
