#include "scheduler/versioning/newest.h"

namespace pipework {
namespace {

class NewestPolicy final : public Policy {
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

const Policy* NewestWeights() {
  static const NewestPolicy policy;
  return &policy;
}

}  // namespace pipework
