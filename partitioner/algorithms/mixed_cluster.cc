#include "partitioner/algorithms/mixed_cluster.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

namespace pipework {
namespace mixed {
namespace {

bool Same(const Link& a, const Link& b) {
  return a.bytes_per_second == b.bytes_per_second &&
         a.latency_seconds == b.latency_seconds &&
         a.compute_share == b.compute_share;
}

}  // namespace

int Part::devices() const {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

Cluster::Cluster(const MixedInput& input) : input_(input), cost_(input) {
  const int devices = static_cast<int>(input.devices.size());
  const auto link = [&](int a, int b) {
    return input.link && a != b ? input.link(std::min(a, b), std::max(a, b))
                                : Link{};
  };
  const auto alike = [&](int a, int b) {
    if (input.devices[a].kind != input.devices[b].kind ||
        input.devices[a].node != input.devices[b].node) {
      return false;
    }
    for (int x = 0; input.link && x < devices; ++x) {
      if (x != a && x != b && !Same(link(a, x), link(b, x))) return false;
    }
    return true;
  };
  for (int d = 0; d < devices; ++d) {
    const auto found = std::find_if(
        groups_.begin(), groups_.end(),
        [&](const Group& group) { return alike(group.members[0], d); });
    if (found != groups_.end()) {
      found->members.push_back(d);
    } else {
      groups_.push_back({input.devices[d].kind, input.devices[d].node, {d}});
    }
  }
  links_.resize(groups_.size() * groups_.size());
  for (size_t a = 0; a < groups_.size(); ++a) {
    for (size_t b = 0; b < groups_.size(); ++b) {
      const std::vector<int>& own = groups_[a].members;
      if (a == b && own.size() < 2) continue;
      links_[a * groups_.size() + b] =
          link(own[0], a == b ? own[1] : groups_[b].members[0]);
    }
  }
}

std::vector<int> Cluster::ByKind(const std::vector<int>& counts) const {
  std::vector<int> kinds(cost_.kinds(), 0);
  for (size_t g = 0; g < groups_.size(); ++g) {
    kinds[groups_[g].kind] += counts[g];
  }
  return kinds;
}

Link Cluster::Within(const std::vector<int>& counts) const {
  Link slowest;
  for (size_t a = 0; a < counts.size(); ++a) {
    if (counts[a] == 0) continue;
    if (counts[a] > 1) slowest = Slower(slowest, LinkOf(a, a));
    for (size_t b = a + 1; b < counts.size(); ++b) {
      if (counts[b] > 0) slowest = Slower(slowest, LinkOf(a, b));
    }
  }
  return slowest;
}

Link Cluster::Between(const std::vector<int>& a,
                      const std::vector<int>& b) const {
  Link slowest;
  for (size_t g = 0; g < a.size(); ++g) {
    if (a[g] == 0) continue;
    for (size_t h = 0; h < b.size(); ++h) {
      if (b[h] > 0) slowest = Slower(slowest, LinkOf(g, h));
    }
  }
  return slowest;
}

int Cluster::links() const {
  std::set<std::tuple<double, double, double>> different;
  for (const Link& link : links_) {
    different.emplace(link.bytes_per_second, link.latency_seconds,
                      link.compute_share);
  }
  return static_cast<int>(different.size());
}

Shared Cluster::CostOf(const Layout& layout, size_t s) const {
  const Part& part = layout[s];
  const Link in = s > 0 ? Between(layout[s - 1].counts, part.counts) : Link{};
  const Link out = s + 1 < layout.size()
                       ? Between(part.counts, layout[s + 1].counts)
                       : Link{};
  return cost_.Of(ByKind(part.counts), part.first, part.last,
                  Within(part.counts), in, out);
}

bool Cluster::Fits(const Part& part, int behind) const {
  if (!input_.fits) return true;
  const std::vector<int> kinds = ByKind(part.counts);
  for (size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k] > 0 && !input_.fits({static_cast<int>(k), part.first,
                                      part.last, part.devices(), behind})) {
      return false;
    }
  }
  return true;
}

double Cluster::Seconds(const Layout& layout) const {
  double slowest = 0;
  int behind = 0;
  for (size_t s = layout.size(); s-- > 0;) {
    if (!Fits(layout[s], behind)) {
      return std::numeric_limits<double>::infinity();
    }
    behind += layout[s].devices();
    slowest = std::max(slowest, CostOf(layout, s).seconds);
  }
  return slowest;
}

}  // namespace mixed
}  // namespace pipework
