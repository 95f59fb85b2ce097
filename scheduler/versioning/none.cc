// No stashing: forward and backward each read what is newest, so the gradient
// is not that of the loss at any single point. One copy of the weights. For
// comparison: it is why PipeDream stashes.
#include "scheduler/versioning/none.h"

namespace pipework {
namespace {

class NoStashingPolicy final : public Policy {
 public:
  WeightVersion ForForward(const VersionQuery& q) const override {
    return q.newest;
  }
  WeightVersion ForBackward(const VersionQuery& q) const override {
    return q.newest;
  }
  WeightVersion OldestStillAskedFor(const Flight& flight) const override {
    return WeightVersion{flight.newest.value() + 1};
  }
  int MostVersions(const PipelineShape&, StageId, int) const override {
    return 1;
  }
};

}  // namespace

const Policy* NoStashing() {
  static const NoStashingPolicy policy;
  return &policy;
}

}  // namespace pipework
