// What the planner's benchmark plans: published profiles and graphs made up.
#ifndef PIPEWORK_TOOLS_BENCH_PLANNER_CASES_H_
#define PIPEWORK_TOOLS_BENCH_PLANNER_CASES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "partitioner/algorithms/partitioner.h"
#include "partitioner/states.h"
#include "proto/placement.pb.h"
#include "proto/profile.pb.h"

namespace pipework {

// Of the text of a profile.
absl::StatusOr<LayerGraph> GraphOfText(absl::string_view text,
                                       absl::string_view source);

// An encoder and a decoder of `layers` each, whose costs are those of recurrent
// layers, and a classifier that reads both: (layers + 1)^2 states.
LayerGraph TwoBranches(int layers);

// Recurrent layers one after the other, each eighth of them twice as slow.
LayerGraph Chain(int layers);

// As a measured profile of minibatches of one sample.
v1::Profile ProfileOf(const LayerGraph& graph);

// A cluster of such levels.
v1::Topology TopologyOf(const std::vector<Level>& levels);

// What pipedream_dp is given for `states` on `levels`.
PartitionInput InputOf(const StateGraph& states,
                       const std::vector<Level>& levels,
                       const CostModel* model);

// Levels of so many components, the innermost first: 8 GB/s, then 1.25 GB/s.
std::vector<Level> Levels(const std::vector<int>& components);

// "4 x 4"
std::string LevelsText(const std::vector<Level>& levels);

}  // namespace pipework

#endif  // PIPEWORK_TOOLS_BENCH_PLANNER_CASES_H_
