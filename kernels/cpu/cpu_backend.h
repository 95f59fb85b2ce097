// The CPU back end: matrix products and convolutions by oneDNN, the rest by
// vector loops that choose the instruction set at run time (Highway).
//
// Memory:  one scratch buffer that grows to the largest need so far.
// Threads: oneDNN computes with `threads` threads in whatever thread calls;
//          vector loops stay on the calling thread.
#ifndef PIPEWORK_KERNELS_CPU_CPU_BACKEND_H_
#define PIPEWORK_KERNELS_CPU_CPU_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/conv2d_plans.h"

namespace pipework {

class CpuBackend final : public Backend {
 public:
  // REQUIRES: threads >= 1.
  CpuBackend(std::shared_ptr<Allocator> allocator, int threads);
  ~CpuBackend() override;

  std::string name() const override { return "cpu"; }
  const std::shared_ptr<Allocator>& allocator() const override {
    return allocator_;
  }
  int threads() const override { return threads_; }

  // <op>.cc has the bodies of its own methods.
  absl::Status LinearForward(const LinearForwardArgs& args) override;
  absl::Status LinearBackwardData(const LinearBackwardDataArgs& args) override;
  absl::Status LinearBackwardWeights(
      const LinearBackwardWeightsArgs& args) override;
  absl::Status Conv2dForward(const Conv2dForwardArgs& args) override;
  absl::Status Conv2dBackwardData(const Conv2dBackwardDataArgs& args) override;
  absl::Status Conv2dBackwardWeights(
      const Conv2dBackwardWeightsArgs& args) override;
  absl::Status MaxPoolForward(const MaxPoolForwardArgs& args) override;
  absl::Status MaxPoolBackward(const MaxPoolBackwardArgs& args) override;
  absl::Status AvgPoolForward(const AvgPoolForwardArgs& args) override;
  absl::Status AvgPoolBackward(const AvgPoolBackwardArgs& args) override;
  absl::Status BatchNormTraining(const BatchNormTrainingArgs& args) override;
  absl::Status BatchNormInference(const BatchNormInferenceArgs& args) override;
  absl::Status BatchNormBackward(const BatchNormBackwardArgs& args) override;
  absl::Status ReluForward(const ReluForwardArgs& args) override;
  absl::Status ReluBackward(const ReluBackwardArgs& args) override;
  absl::Status Dropout(const DropoutArgs& args) override;
  absl::Status Add(const AddArgs& args) override;
  absl::Status SoftmaxXentForward(const SoftmaxXentForwardArgs& args) override;
  absl::Status SoftmaxXentBackward(
      const SoftmaxXentBackwardArgs& args) override;
  absl::Status SquaredErrorForward(
      const SquaredErrorForwardArgs& args) override;
  absl::Status SquaredErrorBackward(
      const SquaredErrorBackwardArgs& args) override;
  absl::Status Sgd(const SgdArgs& args) override;
  absl::Status Adam(const AdamArgs& args) override;
  absl::Status Fill(const FillArgs& args) override;
  absl::Status Copy(const CopyArgs& args) override;
  absl::Status Scale(const ScaleArgs& args) override;
  absl::Status Axpy(const AxpyArgs& args) override;
  absl::Status Accumulate(const AccumulateArgs& args) override;

 private:
  // Makes oneDNN compute with threads() threads in the calling thread. Called
  // before anything of oneDNN is made or run: another back end may have used
  // this thread with another number.
  void UseThreads() const;

  // Scratch of at least `bytes`, 64-byte aligned, contents undefined, valid
  // until the next call. ResourceExhausted: over the allocator's limit.
  absl::StatusOr<char*> Scratch(int64_t bytes);

  const std::shared_ptr<Allocator> allocator_;
  const int threads_;
  std::shared_ptr<Buffer> scratch_;
  std::unique_ptr<Conv2dPlans> conv2d_plans_;  // made by the first convolution
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_CPU_CPU_BACKEND_H_
