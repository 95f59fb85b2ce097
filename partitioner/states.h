// The ways to cut a graph in two.
//
// A state is a set of layers that holds, with a layer, all that it reads. A
// stage is what lies between two states, one inside the other; a pipeline is a
// chain of states from nothing to everything. For a chain of layers state i is
// layers 0..i. The PipeDream optimizer calls them antichain states, after the
// layers at their rim.
#ifndef PIPEWORK_PARTITIONER_STATES_H_
#define PIPEWORK_PARTITIONER_STATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/profile.h"

namespace pipework {

// Costs of a graph's layers and who reads what.
struct LayerGraph {
  struct Node {
    std::string name;
    LayerCost cost;
    std::vector<int> inputs;  // layers that it reads, each once
    bool reads_x = false;
    bool reads_y = false;
  };
  std::vector<Node> nodes;  // every layer after all that it reads
  int64_t x_bytes = 0;
  int64_t y_bytes = 0;

  int size() const { return static_cast<int>(nodes.size()); }
};

// As MakeChain, without the cuts. Its checks are MakeChain's.
absl::StatusOr<LayerGraph> MakeLayerGraph(const v1::Graph& graph,
                                          const v1::Profile& profile,
                                          double scale);

struct State {
  std::vector<int> layers;        // all it holds, ascending
  std::vector<int> rim;           // those whose output is read outside it
  double compute_seconds = 0;     // forward and backward of all it holds
  double parameter_bytes = 0;     // of all it holds
  double cut_bytes = 0;           // forward across its rim, x and y included
  double gradient_bytes = 0;      // back across it
  std::vector<int> predecessors;  // states strictly inside it, ascending
};

// In an order in which a state comes after all that lie inside it. The last one
// is the whole graph.
struct StateGraph {
  std::vector<State> states;
  bool complete = true;  // whether every way to cut is among them

  int size() const { return static_cast<int>(states.size()); }
};

struct StateOptions {
  // Beyond so many states branches are compressed: layers that may run side by
  // side with many others are taken as one with a neighbour on their branch, or
  // with a branch beside theirs, the cheapest first, until the number fits.
  // Layers that everything passes are the last to lose their cuts.
  int most_states = 3000;
};

// All ways to cut `graph`, or as many as fit `options` and are fine-grained
// where time is spent. Cost: states^2 x layers / 64 word operations; where it
// compresses, at most about layers^3 / 64 more.
StateGraph MakeStates(const LayerGraph& graph, const StateOptions& options);

// The states of `sets`: each closed (with a layer it holds all that the layer
// reads), ascending, none twice, the whole graph among them.
StateGraph StatesOf(const LayerGraph& graph,
                    const std::vector<std::vector<int>>& sets);

// The layers in an order in which the stages of a pipeline take them: by stage,
// and within one as the graph has them. `chain` are ascending states, each
// inside the next, the last one the whole graph.
std::vector<int> OrderOf(const StateGraph& states,
                         const std::vector<int>& chain);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_STATES_H_
