// Vertical sync (PipeDream, SOSP 2019): a minibatch is tagged with the newest
// version at the input stage when it enters, and every stage uses that version
// for its forward and its backward. Plain SGD with a delay of P - 1 updates.
//
// Versions that no minibatch in flight reads are kept too, as long as one that
// is still to come was tagged with them.
#include "scheduler/versioning/vertical_sync.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace pipework {
namespace {

class VerticalSyncPolicy final : public Policy {
 public:
  WeightVersion ForForward(const VersionQuery& q) const override {
    return std::min(q.at_entry, q.newest);
  }
  WeightVersion ForBackward(const VersionQuery& q) const override {
    return q.forward_read;
  }
  WeightVersion OldestStillAskedFor(const Flight& flight) const override {
    return std::min(flight.OldestForwardRead(), flight.oldest_to_come);
  }

  // Units are numbered from the last drain. The first unit of the stage that
  // is not finished at update u is n = (u + 1) r_s A; it entered when stage 0
  // had made e = max(0, floor((floor(n / r_0) - warm(0)) / A)) updates, and is
  // tagged with version floor(e r_0 / r_s) here. Versions from there to u + 1
  // are held. In a straight pipeline: P, on every stage. With shares r is the
  // sum of them, and what a replica of stage 0 has done is bounded by its lead.
  int MostVersions(const PipelineShape& shape, StageId stage,
                   int accumulate) const override {
    const int64_t A = accumulate;
    const int64_t r0 = shape.round(StageId{0});
    const int64_t rs = shape.round(stage);
    const int64_t warm = Warmup(shape, StageId{0});
    const int64_t period = std::lcm(r0, rs) / rs;
    const int64_t full = warm * r0 / (rs * A) + 1;  // from here on it repeats
    int64_t most = 1;
    for (int64_t u = 0; u <= full + period; ++u) {
      const int64_t n = (u + 1) * rs * A;
      const int64_t done = shape.has_shares(StageId{0})
                               ? (n - Lead(shape, StageId{0})) / r0
                               : n / r0 - warm;
      const int64_t e = std::max<int64_t>(0, done) / A;
      most = std::max(most, u + 2 - e * r0 / rs);
    }
    return static_cast<int>(most);
  }
};

}  // namespace

const Policy* VerticalSync() {
  static const VerticalSyncPolicy policy;
  return &policy;
}

}  // namespace pipework
