// BuildStage makes what one stage replica computes with: the bodies of its
// layers, initial parameters and buffers, optimizer state.
#ifndef PIPEWORK_DAEMON_EXECUTOR_STAGE_BUILDER_H_
#define PIPEWORK_DAEMON_EXECUTOR_STAGE_BUILDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/executor/stage_layout.h"
#include "kernels/backend.h"
#include "kernels/layers/layer.h"
#include "kernels/optimizers/optimizer.h"
#include "kernels/tensor.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"

namespace pipework {

struct BuiltStage {
  StageLayout layout;
  std::vector<std::unique_ptr<LayerBody>> bodies;  // by local layer
  std::vector<std::string> layer_names;            // by local layer
  TensorList weights;  // of use kWeights, in the layout's order
  TensorList buffers;  // of use kOptimizer: not versioned
  TensorList state;    // of use kOptimizer: parameter by parameter
  std::vector<std::string> state_names;  // optimizer.momentum.conv1.weight
};

// Everything starts from values keyed by (seed, layer, tensor, element), so it
// does not depend on the cut. `backend` outlives the result.
// InvalidArgument: the plan does not fit the graph. ResourceExhausted: no
// memory.
absl::StatusOr<BuiltStage> BuildStage(const v1::Graph& graph,
                                      const GraphInfo& info,
                                      const v1::Plan& plan, StageId stage,
                                      int64_t seed, const Optimizer& optimizer,
                                      Backend& backend);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_STAGE_BUILDER_H_
