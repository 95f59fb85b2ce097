// Network: a whole training job in one thread, cut into stages and replicas as
// the plan says, but with nothing of a pipeline in it. Whoever drives it says
// which unit each stage takes next and which version of its weights it reads;
// the network does the arithmetic in the order that the job defines:
//
//   gradient of a tensor   over the layers that read it, the last one first
//   unit k                 on replica k mod r, or whose turn it is in the round
//                          where the plan gives the replicas shares
//   gradient of a weight   units in the order they are driven, per replica;
//                          then replica 0, 1, ...; present ones only
//   update                 gradient x 1 / (samples x label elements)
//   batch norm             each replica moves its own running statistics in
//                          the order of its forwards; a drain averages them
//
// Memory:  every version that was not dropped, the tensors of units in flight.
// Threads: none of its own; one at a time.
#ifndef PIPEWORK_DAEMON_ORACLE_NETWORK_H_
#define PIPEWORK_DAEMON_ORACLE_NETWORK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/data/dataset.h"
#include "kernels/backend.h"
#include "kernels/layers/graph_shape.h"
#include "kernels/layers/layer.h"
#include "kernels/optimizers/optimizer.h"
#include "kernels/tensor.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace pipework {

// A tensor under the name that it has in a checkpoint.
struct OracleTensor {
  std::string name;
  int layer = 0;  // in the graph
  Tensor tensor;
};

struct OracleJob {
  v1::JobSpec spec;
  v1::Graph graph;
  v1::Plan plan;  // first layers, replicas, schedule
  std::shared_ptr<const Dataset> train;
  std::string backend = "cpu";
  // Values that take the place of initial ones, by name. May be empty.
  std::map<std::string, std::vector<float>> initial;
};

class Network {
 public:
  // InvalidArgument: a plan that does not fit the graph, a spec whose optimizer
  // or back end is not known.
  static absl::StatusOr<std::unique_ptr<Network>> Create(OracleJob job);

  int stages() const { return static_cast<int>(stages_.size()); }
  int replicas(int stage) const { return stages_[stage].replicas; }
  // Units after which it is replica 0's turn again: one for each replica, or
  // its shares.
  int64_t units_per_round(int stage) const {
    return static_cast<int64_t>(stages_[stage].turns.size());
  }
  // Units of a minibatch: microbatches where the schedule takes them.
  int64_t units_per_minibatch() const { return units_per_minibatch_; }
  bool takes_microbatches() const { return takes_microbatches_; }
  int64_t accumulate() const { return accumulate_; }
  int64_t minibatches_per_epoch() const {
    return sampler_.minibatches_per_epoch();
  }
  int64_t total_steps() const { return total_steps_; }
  // The replica that runs `unit`.
  int OwnerOf(int stage, int64_t unit) const;
  // Stages whose tensors this stage reads; and that read this stage's.
  const std::vector<int>& producers(int stage) const {
    return stages_[stage].producers;
  }
  const std::vector<int>& consumers(int stage) const {
    return stages_[stage].consumers;
  }

  int64_t newest(int stage) const { return stages_[stage].newest; }
  bool HasVersion(int stage, int64_t version) const;
  // REQUIRES: it is not the newest.
  void DropVersion(int stage, int64_t version);

  // REQUIRES: the version exists; the unit's producers have been forwarded (its
  // consumers backwarded), each once. OutOfRange: the loss is not finite.
  absl::Status Forward(int stage, int replica, int64_t unit, int64_t version);
  absl::Status Backward(int stage, int replica, int64_t unit, int64_t version);

  // Makes the next version of the stage's weights from the gradients of the
  // units backwarded since the last one. REQUIRES: there are some.
  absl::Status Update(int stage);

  // The replicas of the stage take the mean of their buffers.
  absl::Status Drain(int stage);

  // Newest weights, replica 0's buffers, optimizer state, in graph order.
  std::vector<OracleTensor> Tensors() const;

  // Mean loss of each minibatch that was forwarded, in order.
  std::vector<double> Losses() const;

 private:
  struct Param {
    std::string name;  // layer.param
    int layer = 0;
  };

  struct Replica {
    TensorList buffers;
    TensorList gradients;
    bool present = false;  // in the update in progress
  };

  struct Stage {
    int first_layer = 0;
    int end_layer = 0;
    int replicas = 1;
    std::vector<int> turns;  // replica of each unit of a round
    std::vector<int> producers;
    std::vector<int> consumers;
    std::vector<Param> params;
    std::vector<Param> buffer_names;
    std::vector<std::unique_ptr<LayerBody>> bodies;
    // Places of each layer's parameters and buffers in the lists above.
    std::vector<int> first_param;
    std::vector<int> first_buffer;
    std::map<int64_t, TensorList> versions;
    int64_t newest = 0;
    TensorList state;  // by parameter, then state name
    std::vector<Replica> members;
    // Of the update in progress.
    int64_t samples = 0;
    int64_t last_unit = -1;
  };

  // Everything of one unit while it is under way.
  struct Unit {
    int64_t minibatch = 0;
    int64_t first_sample = 0;
    int64_t samples = 0;
    Tensor x, y;
    TensorList values;         // output of each layer
    std::vector<Saved> saved;  // of each layer
    TensorList gradients;      // of each layer's output
    int backwards_left = 0;
  };

  struct StepLoss {
    double sum = 0;
    int64_t samples = 0;
  };

  Network(OracleJob job, GraphInfo info, std::unique_ptr<Backend> backend,
          std::unique_ptr<Optimizer> optimizer);

  absl::Status BuildStage(const v1::PlanStage& planned);
  absl::StatusOr<Tensor> Initial(int layer, const ParamSpec& spec);
  absl::StatusOr<Tensor> NewTensor(const Shape& shape);
  absl::StatusOr<Unit*> UnitOf(int64_t unit);
  StepContext ContextOf(const Unit& unit) const;

  const OracleJob job_;
  const GraphInfo info_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Optimizer> optimizer_;
  const Sampler sampler_;
  const bool takes_microbatches_;
  const int64_t units_per_minibatch_;
  const int64_t accumulate_;
  const int64_t total_steps_;
  std::vector<Stage> stages_;
  std::map<int64_t, Unit> units_;
  std::map<int64_t, StepLoss> losses_;  // by minibatch
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_ORACLE_NETWORK_H_
