// The order in which the stages of a plan take the layers of a graph.
#ifndef PIPEWORK_SCHEDULER_LAYER_ORDER_H_
#define PIPEWORK_SCHEDULER_LAYER_ORDER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/profile.pb.h"

namespace pipework {

// `graph` with its layers in the plan's order, in which every stage is a range;
// `graph` itself where the plan keeps the order. What a layer computes does not
// depend on its place: weights and random numbers go by name. Inputs that were
// left out are written down.
// InvalidArgument: the order is not one of all layers, or a layer would come
// before one that it reads.
absl::StatusOr<v1::Graph> ReorderGraph(const v1::Graph& graph,
                                       const v1::Plan& plan);

// The same for a list of layers: `order[i]` is the layer that comes in place i.
absl::StatusOr<v1::Graph> ReorderGraph(const v1::Graph& graph,
                                       const std::vector<int>& order);

// The layers of `profile` in that order. REQUIRES: a permutation of them.
v1::Profile ReorderProfile(const v1::Profile& profile,
                           const std::vector<int>& order);

// By layer: the layers that it reads, those left out in the graph included;
// "x" and "y" are not among them.
std::vector<std::vector<int>> LayersRead(const v1::Graph& graph);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_LAYER_ORDER_H_
