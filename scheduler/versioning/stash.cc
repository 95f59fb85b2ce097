// Weight stashing (PipeDream, SOSP 2019): each stage uses its newest weights,
// and the backward pass reads again what the forward pass read. Stages may
// differ in the version that a minibatch sees.
#include "scheduler/versioning/stash.h"

namespace pipework {
namespace {

class StashingPolicy final : public Policy {
 public:
  WeightVersion ForForward(const VersionQuery& q) const override {
    return q.newest;
  }
  WeightVersion ForBackward(const VersionQuery& q) const override {
    return q.forward_read;
  }
  WeightVersion OldestStillAskedFor(const Flight& flight) const override {
    return flight.OldestForwardRead();
  }
  int MostVersions(const PipelineShape& shape, StageId stage,
                   int accumulate) const override {
    return Versions(shape, stage, accumulate);
  }
};

}  // namespace

const Policy* Stashing() {
  static const StashingPolicy policy;
  return &policy;
}

}  // namespace pipework
