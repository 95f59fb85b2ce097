// LayerRunner takes one unit through the layers of a stage, forward and back.
//
// Memory:  what a unit keeps is in its InFlight; values that nobody on the
//          stage reads any more are let go as the forward goes on.
// Threads: none of its own; the executor's thread makes every call.
#ifndef PIPEWORK_DAEMON_EXECUTOR_LAYER_RUNNER_H_
#define PIPEWORK_DAEMON_EXECUTOR_LAYER_RUNNER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/executor/activation_store.h"
#include "daemon/executor/stage_builder.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace pipework {

class LayerRunner {
 public:
  // Borrows both for its life. The stage's own `weights` are not looked at.
  LayerRunner(BuiltStage* stage, Backend* backend, int64_t seed);

  // Takes flight.inputs and fills in flight.outputs and, when training,
  // flight.saved. Returns the loss of a stage that has one, else an empty
  // tensor. Errors name the layer. REQUIRES: flight.samples > 0.
  absl::StatusOr<Tensor> Forward(InFlight& flight, const TensorList& weights,
                                 bool training);

  // Takes flight.output_gradients and flight.saved, adds to `gradients` and
  // fills in flight.input_gradients. Errors name the layer. REQUIRES: `weights`
  // are those of the forward; flight.samples > 0.
  absl::Status Backward(InFlight& flight, const TensorList& weights,
                        absl::Span<Tensor> gradients);

 private:
  absl::Status AddToCell(int cell, Tensor gradient);

  BuiltStage* const stage_;
  Backend* const backend_;
  const int64_t seed_;
  // Scratch.
  TensorList values_;  // by slot
  TensorList cells_;   // by cell
  TensorList arguments_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_LAYER_RUNNER_H_
