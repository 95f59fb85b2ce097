// Who hands tensors to whom: whole stages by their edges, or the chunks of
// stages in a chain.
//
// With v chunks a stage the layers are cut into v P virtual stages. `v = 2`,
// P = 3, chunk 0 and chunk 1 of each stage:
//
//   interleaved   s0: 0 3   s1: 1 4   s2: 2 5
//   folded        s0: 0 5   s1: 1 4   s2: 2 3     (the V of zero bubble)
#ifndef PIPEWORK_SCHEDULER_CHUNKS_H_
#define PIPEWORK_SCHEDULER_CHUNKS_H_

#include <vector>

#include "scheduler/program.h"

namespace pipework {

// Virtual stage of chunk `chunk` of `stage`.
int VirtualStage(const PipelineShape& shape, StageId stage, int chunk);

// Another stage, or another chunk of the same one.
struct Neighbour {
  StageId stage;
  int chunk = 0;
  bool has_gradient = true;
};

struct Neighbours {
  std::vector<Neighbour> producers;
  std::vector<Neighbour> consumers;
};

// Of a chunk; `edges` is EdgesOf(shape), and a chain where there are chunks. A
// neighbour on the same stage takes the tensor without a transfer.
Neighbours NeighboursOf(const PipelineShape& shape,
                        const std::vector<StageEdge>& edges, StageId stage,
                        int chunk);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_CHUNKS_H_
