#include "daemon/executor/stage_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

absl::StatusOr<TensorList> InitialTensors(const std::vector<StageTensor>& specs,
                                          int64_t seed, MemoryUse use,
                                          Allocator& allocator) {
  TensorList tensors;
  tensors.reserve(specs.size());
  for (const StageTensor& each : specs) {
    ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, each.spec.shape,
                                                     DType::kF32, use));
    Initialise(seed, each.layer, each.spec, tensor.f32());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

absl::StatusOr<BuiltStage> BuildStage(const v1::Graph& graph,
                                      const GraphInfo& info,
                                      const v1::Plan& plan, StageId stage,
                                      int64_t seed, const Optimizer& optimizer,
                                      Backend& backend) {
  BuiltStage built;
  ASSIGN_OR_RETURN(built.layout, LayoutOf(graph, info, plan, stage));
  for (int i = built.layout.first_layer; i < built.layout.end_layer; ++i) {
    std::vector<TensorSpec> inputs;
    for (const int producer : info.inputs[i]) {
      inputs.push_back(producer == kInputX   ? info.x
                       : producer == kInputY ? info.y
                                             : info.layers[producer].output);
    }
    absl::StatusOr<std::unique_ptr<LayerBody>> body =
        MakeLayer(graph.layers(i), inputs, backend);
    if (!body.ok()) return WithContext(graph.layers(i).name(), body.status());
    built.bodies.push_back(*std::move(body));
    built.layer_names.push_back(graph.layers(i).name());
  }
  Allocator& allocator = *backend.allocator();
  ASSIGN_OR_RETURN(built.weights,
                   InitialTensors(built.layout.params, seed,
                                  MemoryUse::kWeights, allocator));
  ASSIGN_OR_RETURN(built.buffers,
                   InitialTensors(built.layout.buffers, seed,
                                  MemoryUse::kOptimizer, allocator));
  for (const StageTensor& param : built.layout.params) {
    for (const std::string& name : optimizer.state_names()) {
      ASSIGN_OR_RETURN(Tensor state,
                       Tensor::Zeros(allocator, param.spec.shape, DType::kF32,
                                     MemoryUse::kOptimizer));
      built.state.push_back(std::move(state));
      built.state_names.push_back(
          absl::StrCat("optimizer.", name, ".", param.name));
    }
  }
  return built;
}

}  // namespace pipework
