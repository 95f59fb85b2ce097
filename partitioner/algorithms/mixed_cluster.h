// Devices that nothing tells apart as one group, and what a stage on so many of
// each group costs. Internal to `mixed`.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_CLUSTER_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_CLUSTER_H_

#include <vector>

#include "partitioner/algorithms/mixed.h"
#include "partitioner/algorithms/mixed_cost.h"

namespace pipework {
namespace mixed {

// Of one kind on one node, with the same links to everybody.
struct Group {
  int kind = 0;
  int node = 0;
  std::vector<int> members;  // devices, ascending
};

// Layers first..last on counts[g] devices of each group.
struct Part {
  int first = 0;
  int last = 0;
  std::vector<int> counts;

  int devices() const;
};
using Layout = std::vector<Part>;

class Cluster {
 public:
  // Borrows `input`. Costs a look at every pair of devices.
  explicit Cluster(const MixedInput& input);

  const MixedInput& input() const { return input_; }
  const std::vector<Group>& groups() const { return groups_; }
  const StageCost& cost() const { return cost_; }

  std::vector<int> ByKind(const std::vector<int>& counts) const;
  // Slowest link among the devices; free of a single one.
  Link Within(const std::vector<int>& counts) const;
  // Slowest link from one of `a` to one of `b`.
  Link Between(const std::vector<int>& a, const std::vector<int>& b) const;

  // How many different links there are between groups.
  int links() const;

  // Of part s of a layout, by the formula.
  Shared CostOf(const Layout& layout, size_t s) const;
  // Whether part s fits with `behind` devices behind it.
  bool Fits(const Part& part, int behind) const;
  // Slowest part; infinite where one does not fit.
  double Seconds(const Layout& layout) const;

 private:
  const Link& LinkOf(size_t a, size_t b) const {
    return links_[a * groups_.size() + b];
  }

  const MixedInput& input_;
  const StageCost cost_;
  std::vector<Group> groups_;
  std::vector<Link> links_;  // by pair of groups; a group's own among itself
};

}  // namespace mixed
}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_CLUSTER_H_
