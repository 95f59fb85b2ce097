// A partitioner cuts layers into stages and gives each its replicas.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_PARTITIONER_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_PARTITIONER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "partitioner/cost_model.h"

namespace pipework {

// `components` of the level below, joined by `link`.
struct Level {
  int components = 1;
  Link link;
};

// Versions and activation sets that a stage holds; the partitioner does not
// know the weight policies and is told.
struct Holds {
  int versions = 1;
  int activations = 1;
  // An activation set is this part of what a layer's profile says.
  int parts = 1;
};
// Of a stage with `replicas`, `before` workers before it and `workers` in all.
using HoldsFn = std::function<Holds(int workers, int before, int replicas)>;

// Whether layers first..last fit on each of `replicas` devices, with `before`
// workers before them. Empty: always. Over levels both count single workers of
// the whole pipeline: a stage on r workers of each of R components has r R
// replicas and, behind b workers in each of them, b R before it beside those of
// the components before. Workers left idle stand in front.
using FitsFn =
    std::function<bool(int first, int last, int before, int replicas)>;

struct PartitionInput {
  // By layer: seconds per minibatch, bytes of weights.
  std::vector<double> layer_seconds;
  std::vector<double> weight_bytes;
  // By layer: bytes that cross a cut after it.
  std::vector<double> cut_bytes;
  // From the innermost level outwards; all workers are used.
  std::vector<Level> levels;
  const CostModel* cost_model = nullptr;
  FitsFn fits;
  int stages = 0;  // 0: as many as are best; only where the algorithm says so
  std::vector<int> replicas;   // pinned, of each stage; empty: free
  int max_stages = 0;          // of single workers; 0: no limit
  bool straight = false;       // one replica of each stage, on every level
  bool fewer_workers = false;  // some may be left idle
  // A graph with branches: "layer" then reads "state" everywhere (see
  // partitioner/states.h), the sums up to and with each state stand here, and
  // only the predecessors of a state may be cut off it: all that lie inside,
  // ascending. Empty: a chain, whose sums are those of layer_seconds and
  // weight_bytes.
  std::vector<double> state_seconds;
  std::vector<double> state_weight_bytes;
  std::vector<std::vector<int>> predecessors;

  int layers() const {
    return static_cast<int>(predecessors.empty() ? layer_seconds.size()
                                                 : predecessors.size());
  }
  int workers() const;
};

// Layers first..last (inclusive, as in the paper) on `replicas` workers each.
// Of states: what state `last` holds beyond state first - 1.
struct StageCut {
  int first = 0;
  int last = 0;
  int replicas = 1;

  friend bool operator==(const StageCut& a, const StageCut& b) {
    return a.first == b.first && a.last == b.last && a.replicas == b.replicas;
  }
};

struct Partition {
  double seconds = 0;             // of the slowest stage or cut
  std::vector<StageCut> stages;   // of the outermost level, in components of it
  std::vector<StageCut> workers;  // the same, expanded to single workers
};

// InvalidArgument: sizes that do not fit together. FailedPrecondition: no
// partition fits into memory, more stages are wanted than there are layers or
// workers, or a straight one has too few layers to use all workers.
using PartitionFn = absl::StatusOr<Partition> (*)(const PartitionInput& input);

struct PartitionerEntry {
  absl::string_view name;
  absl::string_view summary;
  PartitionFn run;
};

absl::Span<const PartitionerEntry> Partitioners();

// NotFound lists the known ones.
absl::StatusOr<PartitionFn> FindPartitioner(absl::string_view name);

// The first of the checks above.
absl::Status CheckPartitionInput(const PartitionInput& input);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_PARTITIONER_H_
