// What the partitioner knows of a graph: a chain of layers with costs, and the
// bytes that cross each possible cut.
#ifndef PIPEWORK_PARTITIONER_PROFILE_H_
#define PIPEWORK_PARTITIONER_PROFILE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"
#include "proto/profile.pb.h"

namespace pipework {

// Costs of one layer for one unit.
struct LayerCost {
  double forward_seconds = 0;
  double backward_seconds = 0;  // input and weight gradients
  double update_seconds = 0;    // per update, not per unit
  int64_t output_bytes = 0;
  int64_t parameter_bytes = 0;
  int64_t kept_bytes = 0;       // per unit in flight, for its backward
  int64_t workspace_bytes = 0;  // once
};

// Layers in graph order. Cut i lies after layer i.
struct ChainProfile {
  std::vector<LayerCost> layers;
  // By cut: bytes of all tensors made at or before layer i and read after it,
  // each counted once: also what skips layers, labels and the input. The last
  // is 0. They go forward once per unit.
  std::vector<int64_t> cut_bytes;
  // The part of them that has a gradient, which comes back.
  std::vector<int64_t> gradient_bytes;
  // The profile does not say what layers keep: every output then.
  bool outputs_kept = false;
  int64_t x_bytes = 0;  // the samples of a unit
  int64_t y_bytes = 0;  // its labels

  int size() const { return static_cast<int>(layers.size()); }
  // Layers first..last together: sums, the output of the last, the largest
  // workspace.
  LayerCost CostOf(int first, int last) const;
};

// Whether `profile` can be planned with: one layer at least and 5,000 at most,
// names that differ and are not x or y, inputs that are x, y or layers before
// their reader, and numbers that are finite and from 0 (bytes up to 2^47).
// InvalidArgument names the layer, what is wrong with it and the remedy.
absl::Status CheckProfile(const v1::Profile& profile);

// The graph that `profile` describes by its inputs: layers of type "profiled".
// A layer without inputs reads the one before, the first one x.
// InvalidArgument: as CheckProfile.
absl::StatusOr<v1::Graph> GraphOfProfile(const v1::Profile& profile);

// `scale` multiplies what grows with the number of samples: a profile measured
// with 32 samples says what a unit of 8 costs with scale 0.25.
// InvalidArgument: `profile` is not one of `graph`, or CheckProfile refuses it.
absl::StatusOr<ChainProfile> MakeChain(const v1::Graph& graph,
                                       const v1::Profile& profile,
                                       double scale);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_PROFILE_H_
