// What can be said of a network: its layers by name, and its stages.
#ifndef PIPEWORK_DAEMON_SPEC_LAYER_CHECKS_H_
#define PIPEWORK_DAEMON_SPEC_LAYER_CHECKS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "daemon/spec/problems.h"
#include "kernels/models/registry.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"

namespace pipework {

// Names, types and wiring of an inline graph, without any shape. REQUIRES
// nothing of it.
void CheckLayers(const v1::ModelSpec& model, Problems* problems);

// What is wrong with a built-in network whatever the data: its arguments, and
// more stages than it has layers. REQUIRES: its name is known.
void CheckBuiltIn(const v1::JobSpec& spec, Problems* problems);

// Whether any stage names its layers; where none does, the planner cuts.
bool HasStageLayers(const v1::PipelineSpec& pipeline);

// Pinned stages cover `names`, the layers of the graph, once; no more stages
// than layers. Whether a stage reads from a later one, the planner checks.
void CheckStageLayers(const v1::PipelineSpec& pipeline,
                      absl::Span<const std::string> names, Problems* problems);

// Builds the network for these ends; every layer that does not fit is a
// problem of its own. The graph is whole when there are none.
v1::Graph CheckGraph(const v1::JobSpec& spec, const ModelEnds& ends,
                     Problems* problems);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_LAYER_CHECKS_H_
