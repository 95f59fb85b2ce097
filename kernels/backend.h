// Backend: the mathematics of one device, one method per op.
//
// The formula, shapes and tolerance of each op are in kernels/ops/<op>.h.
// Pointers are to memory of the back end's own device, except where the op
// says otherwise; an output overlaps an input only where the op allows it.
//
// The result of a call depends on its arguments alone: not on addresses, on
// other threads or on what ran before, so equal calls give equal bits (for one
// instruction set and one number of threads).
//
// Memory:  scratch is kept from call to call and counted as kWorkspace.
// Threads: an object belongs to the thread that uses it; the first call on
//          another thread sets that thread's compute threads anew.
#ifndef PIPEWORK_KERNELS_BACKEND_H_
#define PIPEWORK_KERNELS_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/device.h"
#include "kernels/ops/adam.h"
#include "kernels/ops/add.h"
#include "kernels/ops/avg_pool.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/max_pool.h"
#include "kernels/ops/relu.h"
#include "kernels/ops/sgd.h"
#include "kernels/ops/softmax_xent.h"
#include "kernels/ops/squared_error.h"
#include "kernels/ops/vector.h"

namespace pipework {

// Every op returns OK, or ResourceExhausted when its scratch does not fit the
// allocator's limit, or Internal when a library refuses; SoftmaxXentForward
// also InvalidArgument for a bad label. After an error outputs are unspecified.
class Backend {
 public:
  virtual ~Backend() = default;

  // reference, cpu or cuda:N.
  virtual std::string name() const = 0;
  // Memory of the device. Buffers may outlive the back end.
  virtual const std::shared_ptr<Allocator>& allocator() const = 0;
  // Threads that each op computes with.
  virtual int threads() const = 0;

  virtual absl::Status LinearForward(const LinearForwardArgs& args) = 0;
  virtual absl::Status LinearBackwardData(
      const LinearBackwardDataArgs& args) = 0;
  virtual absl::Status LinearBackwardWeights(
      const LinearBackwardWeightsArgs& args) = 0;

  virtual absl::Status Conv2dForward(const Conv2dForwardArgs& args) = 0;
  virtual absl::Status Conv2dBackwardData(
      const Conv2dBackwardDataArgs& args) = 0;
  virtual absl::Status Conv2dBackwardWeights(
      const Conv2dBackwardWeightsArgs& args) = 0;

  virtual absl::Status MaxPoolForward(const MaxPoolForwardArgs& args) = 0;
  virtual absl::Status MaxPoolBackward(const MaxPoolBackwardArgs& args) = 0;
  virtual absl::Status AvgPoolForward(const AvgPoolForwardArgs& args) = 0;
  virtual absl::Status AvgPoolBackward(const AvgPoolBackwardArgs& args) = 0;

  virtual absl::Status BatchNormTraining(const BatchNormTrainingArgs& args) = 0;
  virtual absl::Status BatchNormInference(
      const BatchNormInferenceArgs& args) = 0;
  virtual absl::Status BatchNormBackward(const BatchNormBackwardArgs& args) = 0;

  virtual absl::Status ReluForward(const ReluForwardArgs& args) = 0;
  virtual absl::Status ReluBackward(const ReluBackwardArgs& args) = 0;
  // Forward on x, backward on dy.
  virtual absl::Status Dropout(const DropoutArgs& args) = 0;
  virtual absl::Status Add(const AddArgs& args) = 0;

  virtual absl::Status SoftmaxXentForward(
      const SoftmaxXentForwardArgs& args) = 0;
  virtual absl::Status SoftmaxXentBackward(
      const SoftmaxXentBackwardArgs& args) = 0;
  virtual absl::Status SquaredErrorForward(
      const SquaredErrorForwardArgs& args) = 0;
  virtual absl::Status SquaredErrorBackward(
      const SquaredErrorBackwardArgs& args) = 0;

  virtual absl::Status Sgd(const SgdArgs& args) = 0;
  virtual absl::Status Adam(const AdamArgs& args) = 0;

  virtual absl::Status Fill(const FillArgs& args) = 0;
  virtual absl::Status Copy(const CopyArgs& args) = 0;
  virtual absl::Status Scale(const ScaleArgs& args) = 0;
  virtual absl::Status Axpy(const AxpyArgs& args) = 0;
  virtual absl::Status Accumulate(const AccumulateArgs& args) = 0;
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_BACKEND_H_
