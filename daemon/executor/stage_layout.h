// What a stage looks like from the graph and the plan alone: which layers it
// runs, where each layer's inputs come from, what crosses to which other stage
// and in which order gradients are added. Pure: both ends of an edge compute
// the same lists.
//
// The sums of gradients do not depend on the cut. A tensor's gradient is the
// sum over the layers that read it, from the last one to the first. A stage
// adds up what it can without changing that order and sends the rest apart.
#ifndef PIPEWORK_DAEMON_EXECUTOR_STAGE_LAYOUT_H_
#define PIPEWORK_DAEMON_EXECUTOR_STAGE_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "kernels/layers/graph_shape.h"
#include "kernels/layers/layer_shape.h"
#include "proto/graph.pb.h"
#include "proto/ids.h"
#include "proto/plan.pb.h"

namespace pipework {

// A slot is a tensor that the layers of a stage read or write: the outputs of
// its layers come first, then what comes from outside.
// A cell is a gradient that a stage adds up: those of its layers' outputs come
// first, then what it sends back over its input edges.

struct LayerWiring {
  int layer = 0;  // in the graph
  std::vector<int> input_slots;
  // Which inputs want a gradient: all but samples and labels.
  absl::InlinedVector<bool, 4> wanted;
  // The cell that each input's gradient is added to; -1: none.
  std::vector<int> cells;
  // Nobody on this stage reads the input after this layer, and it is not sent.
  absl::InlinedVector<bool, 4> last_use;
  // The layer's place in the stage's lists of parameters and buffers.
  int first_param = 0;
  int params = 0;
  int first_buffer = 0;
  int buffers = 0;
};

// One tensor of an edge.
struct EdgeTensor {
  int producer = 0;  // layer of the graph, kInputX or kInputY
  int slot = 0;      // on this stage
  TensorSpec spec;   // of one sample
};

// One gradient that goes back over an edge.
struct GradientPart {
  int producer = 0;  // layer of the graph
  int cell = 0;      // on this stage
  TensorSpec spec;   // of one sample
};

struct EdgeLayout {
  StageId peer;
  std::vector<EdgeTensor> tensors;      // layers ascending, then x, then y
  std::vector<GradientPart> gradients;  // same producers; consumers descending
};

// A parameter or buffer of the stage.
struct StageTensor {
  std::string name;   // conv1.weight
  std::string layer;  // conv1
  ParamSpec spec;
};

struct StageLayout {
  StageId stage;
  int replicas = 1;
  int first_layer = 0;
  int end_layer = 0;
  std::vector<LayerWiring> layers;
  int slots = 0;
  int x_slot = -1;  // stage 0: filled from the data; -1: not needed here
  int y_slot = -1;
  int cells = 0;
  std::vector<EdgeLayout> inputs;   // by peer stage, ascending
  std::vector<EdgeLayout> outputs;  // by peer stage, ascending
  std::vector<StageTensor> params;
  std::vector<StageTensor> buffers;
  bool has_loss = false;

  int layer_count() const { return end_layer - first_layer; }
};

// InvalidArgument: the plan does not cut the graph into consecutive stages.
absl::StatusOr<StageLayout> LayoutOf(const v1::Graph& graph,
                                     const GraphInfo& info,
                                     const v1::Plan& plan, StageId stage);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_STAGE_LAYOUT_H_
