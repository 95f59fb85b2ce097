// Runs one minibatch by readiness (RRFP, section 6 of the algorithms) on a
// clock: no program, but a rule by which each stage picks among the tasks whose
// inputs are there.
//
// The hints, as the paper names them:
//
//   BF          a round is one backward, then one forward, each if it is ready:
//               after a backward forwards are looked at first, after a forward
//               or an empty round backwards
//   BFW         the same; W runs when neither a B nor an F is ready
//   B-priority  backwards are always looked at first
//   F-priority  forwards are always looked at first
//
// Among ready tasks of a kind the smallest microbatch goes first. A forward is
// ready when its activation has come and fewer than `limit` microbatches are
// between the begin of their F and the end of their B on the stage.
// Cost: tasks times the logarithm of the microbatches. Pure.
#ifndef PIPEWORK_SCHEDULER_PASSES_SIMULATE_READY_H_
#define PIPEWORK_SCHEDULER_PASSES_SIMULATE_READY_H_

#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/passes/simulate.h"

namespace pipework {

enum class ReadyHint {
  kBackwardForward,        // BF
  kBackwardForwardWeight,  // BFW
  kBackwardPriority,
  kForwardPriority,
};

struct ReadyRule {
  ReadyHint hint = ReadyHint::kBackwardForward;
  // By stage: most microbatches in flight; empty: no limit.
  std::vector<int> limits;
};

// Seconds by stage and microbatch.
struct ReadyTimes {
  std::vector<std::vector<double>> forward_seconds;
  std::vector<std::vector<double>> backward_seconds;
  // Of W, with BFW only.
  std::vector<std::vector<double>> weight_gradient_seconds;
  // One way between neighbours, on links that nobody else uses.
  double transfer_seconds = 0;

  // The same on every stage for every microbatch.
  static ReadyTimes Equal(int stages, int microbatches, double forward_seconds,
                          double backward_seconds,
                          double weight_gradient_seconds = 0);
};

struct ReadyRun {
  Timeline timeline;           // rows are stages, units microbatches
  std::vector<int> in_flight;  // by stage: most microbatches
};

// InvalidArgument: lists of different lengths, a limit below 1, or a time that
// is negative or no number. Never waits for ever.
absl::StatusOr<ReadyRun> SimulateReady(const ReadyRule& rule,
                                       const ReadyTimes& times);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_SIMULATE_READY_H_
