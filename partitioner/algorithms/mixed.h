// Partitions a chain of layers over devices that differ: kinds with seconds and
// memory of their own, nodes with different numbers of devices, links that
// depend on which two devices talk. Devices may stay idle.
//
// A stage of layers i..j on devices q with shares n_q, R their sum:
//
//   T = 1/R max over q of max( n_q t_q + ring, n_q messages )
//
//   n_q        as SharesFor says of max(t_q, messages)
//   t_q        seconds of its layers on q, per minibatch, and what its messages
//              keep it from computing (Link::compute_share)
//   ring       RingSeconds of its weights over the slowest link among them
//   messages   2 (a_in + a_out) over the slowest link to the stage before, and
//              to the one behind; each with its latency
//
// The slowest stage is the partition's seconds. With shares of one each, one
// kind and one link that is the cost model `pipework`.
//
// A candidate for the planner: fill MixedInput from profile and topology, call
// Mixed, then turn each stage into a StageCut {first, last, devices.size()},
// pin `devices` as its seats in the order given (replica q is devices[q]) and
// `shares` as its shares; memory, prediction and the rest are as for any other
// candidate. For stages whose devices are pinned already, SharesFor gives the
// shares alone. A graph with branches comes as the linear order of its layers.
//
// Exact by dynamic programming over sets of devices where those are few or
// mostly alike (ten devices that all differ, many more of two sorts); else
// dynamic programs over numbers of devices by kind and over runs of devices,
// improved by moving cuts and devices: seconds for hundreds of devices.
// Never slower than the same partitioner on the faster kinds alone.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "partitioner/cost_model.h"

namespace pipework {

struct MixedDevice {
  int kind = 0;  // of MixedInput::seconds
  int node = 0;  // any number; equal on one node
};

// One device of a stage: do layers first..last fit on it? `behind` counts the
// devices of all later stages, which say how much is in flight.
struct MixedFit {
  int kind = 0;
  int first = 0;
  int last = 0;
  int replicas = 1;
  int behind = 0;
};

struct MixedInput {
  // By kind, then layer: seconds per minibatch, forward and backward.
  std::vector<std::vector<double>> seconds;
  std::vector<double> weight_bytes;  // by layer
  std::vector<double> cut_bytes;     // by layer: one way across a cut after it
  std::vector<MixedDevice> devices;
  // Between two different devices of the list; the same both ways. Empty: free.
  std::function<Link(int, int)> link;
  std::function<bool(const MixedFit&)> fits;  // empty: always
  int stages = 0;                             // so many; 0: as many as are best
  int max_stages = 0;                         // 0: no limit
  bool straight = false;                      // one device for each stage

  int layers() const { return static_cast<int>(weight_bytes.size()); }
};

struct MixedStage {
  int first = 0;  // layers, both inclusive
  int last = 0;
  std::vector<int> devices;  // of each replica, the fastest first
  std::vector<int> shares;   // of each replica; empty: one each
};

struct MixedPartition {
  double seconds = 0;  // of the slowest stage, per minibatch
  std::vector<MixedStage> stages;
  bool exact = false;  // no other is faster
};

// InvalidArgument: sizes that do not fit together, a cost that is no number
// from 0. FailedPrecondition: nothing fits, or more stages are asked for than
// there are layers or devices.
absl::StatusOr<MixedPartition> Mixed(const MixedInput& input);

// Seconds of the slowest of `stages` by the formula, with the shares that they
// have; infinite where one does not fit.
double MixedSeconds(const MixedInput& input,
                    absl::Span<const MixedStage> stages);

// Shares of replicas that take so many seconds for one unit, computing or
// messages, whichever is longer; empty: one each.
//
// Either one each, or as many as each can run while the slowest of them runs
// its own: no replica could run one more without a longer round. Of those
// without a common factor, and no more units in a round than the larger of 16
// and twice the replicas, the quickest for each unit; a larger round only where
// it saves half a percent. The all-reduce has no part in this: a larger round
// is never chosen for fewer of them.
std::vector<int> SharesFor(absl::Span<const double> unit_seconds);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_H_
