// One version for all: a schedule that empties the pipe before each update
// never asks for an older one.
#include "scheduler/versioning/flush.h"

namespace pipework {
namespace {

class FlushPolicy final : public Policy {
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

const Policy* FlushWeights() {
  static const FlushPolicy policy;
  return &policy;
}

}  // namespace pipework
