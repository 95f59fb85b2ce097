#include "scheduler/chunks.h"

namespace pipework {
namespace {

Neighbour At(const PipelineShape& shape, int virtual_stage) {
  const int P = shape.stages();
  const int chunk = virtual_stage / P;
  const int stage = virtual_stage % P;
  const bool back = shape.folded && chunk % 2 == 1;
  return {StageId{back ? P - 1 - stage : stage}, chunk, true};
}

}  // namespace

int VirtualStage(const PipelineShape& shape, StageId stage, int chunk) {
  const int P = shape.stages();
  const bool back = shape.folded && chunk % 2 == 1;
  return chunk * P + (back ? P - 1 - stage.value() : stage.value());
}

Neighbours NeighboursOf(const PipelineShape& shape,
                        const std::vector<StageEdge>& edges, StageId stage,
                        int chunk) {
  Neighbours neighbours;
  if (shape.chunks == 1) {
    for (const StageEdge& edge : edges) {
      if (edge.to == stage) {
        neighbours.producers.push_back({edge.from, 0, edge.has_gradient});
      }
      if (edge.from == stage) {
        neighbours.consumers.push_back({edge.to, 0, edge.has_gradient});
      }
    }
    return neighbours;
  }
  const int own = VirtualStage(shape, stage, chunk);
  if (own > 0) neighbours.producers.push_back(At(shape, own - 1));
  if (own + 1 < shape.stages() * shape.chunks) {
    neighbours.consumers.push_back(At(shape, own + 1));
  }
  return neighbours;
}

}  // namespace pipework
