// What a stage on devices of different kinds costs: the formula of mixed.h over
// numbers of devices instead of devices. Internal to `mixed`.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_COST_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_COST_H_

#include <vector>

#include "partitioner/algorithms/mixed.h"

namespace pipework {
namespace mixed {

// Seconds per minibatch, and the share of each kind.
struct Shared {
  double seconds = 0;
  std::vector<int> shares;  // by kind; empty: one each
};

// SharesFor `counts` devices of each kind; 0 for a kind that has none.
std::vector<int> SharesByKind(const std::vector<int>& counts,
                              const std::vector<double>& unit_seconds);

// The slower of two links in every respect.
Link Slower(const Link& a, const Link& b);

// Sums over layers, and the formula.
class StageCost {
 public:
  explicit StageCost(const MixedInput& input);

  int layers() const { return layers_; }
  int kinds() const { return static_cast<int>(seconds_.size()); }
  // Of layers first..last on kind k.
  double Compute(int k, int first, int last) const {
    return seconds_[k][last + 1] - seconds_[k][first];
  }
  // What crosses the cut after `layer` and its gradient back, and the part of
  // that in which either end cannot compute.
  double Messages(int layer, const Link& link) const;
  double Blocked(int layer, const Link& link) const {
    return link.compute_share * Messages(layer, link);
  }
  double Ring(int first, int last, int members, const Link& link) const {
    return RingSeconds(weights_[last + 1] - weights_[first], members, link);
  }
  // T, and its shares. `in` and `out` are not read at the ends of the chain.
  Shared Of(const std::vector<int>& counts, int first, int last,
            const Link& ring, const Link& in, const Link& out) const;
  double Seconds(const std::vector<int>& counts, int first, int last,
                 const Link& ring, const Link& in, const Link& out) const {
    return Of(counts, first, last, ring, in, out).seconds;
  }
  // No shares and links make T less than this.
  double LeastSeconds(const std::vector<int>& counts, int first,
                      int last) const;

 private:
  const MixedInput& input_;
  const int layers_;
  std::vector<std::vector<double>> seconds_;  // by kind, sums before a layer
  std::vector<double> weights_;
};

}  // namespace mixed
}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_COST_H_
