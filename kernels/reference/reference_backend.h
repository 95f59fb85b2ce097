// The reference back end: plain loops over host memory, double sums. Read an
// op here first; every other back end is compared with it.
//
// Memory:  no scratch.
// Threads: computes on the calling thread alone.
#ifndef PIPEWORK_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
#define PIPEWORK_KERNELS_REFERENCE_REFERENCE_BACKEND_H_

#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace pipework {

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(std::shared_ptr<Allocator> allocator)
      : allocator_(std::move(allocator)) {}

  std::string name() const override { return "reference"; }
  const std::shared_ptr<Allocator>& allocator() const override {
    return allocator_;
  }
  int threads() const override { return 1; }

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
  std::shared_ptr<Allocator> allocator_;
};

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
