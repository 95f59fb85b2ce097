// What the dynamic programs of many devices have in common.
#include <algorithm>
#include <map>

#include "partitioner/algorithms/mixed_search.h"

namespace pipework {
namespace mixed {

std::vector<int> CoarseEnds(const StageCost& cost, int most) {
  const int layers = cost.layers();
  std::vector<int> ends;
  if (layers <= most) {
    for (int l = 0; l < layers; ++l) ends.push_back(l + 1);
    return ends;
  }
  const double total = cost.Compute(0, 0, layers - 1);
  for (int l = 0; l < layers; ++l) {
    const int left = most - static_cast<int>(ends.size());
    const double done = cost.Compute(0, 0, l);
    const double wanted = total * (most - left + 1) / most;
    const bool last = l + 1 == layers;
    if (last ||
        (left > 1 && (total > 0 ? done >= wanted
                                : l + 1 >= static_cast<int>(ends.size() + 1) *
                                               layers / most))) {
      ends.push_back(l + 1);
    }
  }
  return ends;
}

Typical TypicalLinks(const Cluster& cluster, bool near) {
  const std::vector<Group>& groups = cluster.groups();
  Typical links;
  std::map<int, int> on_node;
  std::vector<int> other(groups.size(), 0);
  for (size_t a = 0; a < groups.size(); ++a) {
    const int members = static_cast<int>(groups[a].members.size());
    links.largest_node =
        std::max(links.largest_node, on_node[groups[a].node] += members);
    std::vector<int> one(groups.size(), 0);
    one[a] = 1;
    if (members > 1) {
      links.within = Slower(links.within, cluster.Between(one, one));
    }
    for (size_t b = a + 1; b < groups.size(); ++b) {
      other[b] = 1;
      const Link link = cluster.Between(one, other);
      other[b] = 0;
      Link& of =
          groups[a].node == groups[b].node ? links.within : links.between;
      of = Slower(of, link);
    }
  }
  if (on_node.size() < 2) links.between = links.within;
  links.messages = near ? links.within : links.between;
  return links;
}

}  // namespace mixed
}  // namespace pipework
