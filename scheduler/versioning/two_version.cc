// PipeDream-2BW (Narayanan et al., ICML 2021): microbatch j of a run reads
// version max(floor(j / m) - 1, 0), forward and backward, on every stage: the
// delay is one update. The newest version and the one before it are always
// kept, also where nothing is in flight at the update: the next minibatch
// starts with the one before.
//
// Runs are counted from the last drain, so the first minibatch after one reads
// the newest weights, and so does the second.
#include "scheduler/versioning/two_version.h"

#include <algorithm>

namespace pipework {
namespace {

class TwoVersionPolicy final : public Policy {
 public:
  WeightVersion ForForward(const VersionQuery& q) const override {
    return std::max(q.first, WeightVersion{q.applied_to.value() - 1});
  }
  WeightVersion ForBackward(const VersionQuery& q) const override {
    return q.forward_read;
  }
  WeightVersion OldestStillAskedFor(const Flight& flight) const override {
    return flight.newest;
  }
  int MostVersions(const PipelineShape&, StageId, int) const override {
    return 2;
  }
};

}  // namespace

const Policy* TwoVersions() {
  static const TwoVersionPolicy policy;
  return &policy;
}

}  // namespace pipework
