#include "partitioner/algorithms/mixed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "partitioner/algorithms/mixed_cluster.h"
#include "partitioner/algorithms/mixed_exact.h"
#include "partitioner/algorithms/mixed_search.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

using mixed::Cluster;
using mixed::Layout;
using mixed::Part;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Starts that are improved.
constexpr size_t kImproved = 2;
constexpr char kWho[] = "partitioner mixed";

absl::Status CheckCosts(const std::vector<double>& costs, size_t layers,
                        absl::string_view what) {
  if (costs.size() != layers) {
    return Mismatch(kWho, absl::StrCat("the number of ", what),
                    absl::StrCat(costs.size()),
                    absl::StrCat(layers, " as of layers"));
  }
  for (size_t l = 0; l < layers; ++l) {
    if (!std::isfinite(costs[l]) || costs[l] < 0) {
      return Mismatch(kWho, absl::StrCat(what, " of layer ", l),
                      absl::StrCat(costs[l]), "a number from 0");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInput(const MixedInput& input) {
  const size_t layers = input.weight_bytes.size();
  if (layers == 0) {
    return Mismatch(kWho, "the number of layers", "0", "1 or more");
  }
  RETURN_IF_ERROR(CheckCosts(input.weight_bytes, layers, "weight bytes"));
  RETURN_IF_ERROR(CheckCosts(input.cut_bytes, layers, "cut bytes"));
  for (size_t k = 0; k < input.seconds.size(); ++k) {
    RETURN_IF_ERROR(CheckCosts(input.seconds[k], layers,
                               absl::StrCat("seconds on kind ", k)));
  }
  if (input.devices.empty()) {
    return absl::FailedPreconditionError(
        "plan: the number of devices is 0, expected 1 or more");
  }
  for (size_t d = 0; d < input.devices.size(); ++d) {
    const int kind = input.devices[d].kind;
    if (kind < 0 || kind >= static_cast<int>(input.seconds.size())) {
      return Mismatch(kWho, absl::StrCat("the kind of device ", d),
                      absl::StrCat(kind),
                      absl::StrCat("0 to ", input.seconds.size(), " - 1"));
    }
  }
  if (input.stages < 0 || input.max_stages < 0) {
    return Mismatch(kWho, "the number of stages",
                    absl::StrCat(std::min(input.stages, input.max_stages)),
                    "0 (free) or more");
  }
  for (const auto& [most, what] :
       {std::make_pair(layers, "layers"),
        std::make_pair(input.devices.size(), "devices")}) {
    if (input.stages > static_cast<int>(most)) {
      return absl::FailedPreconditionError(
          absl::StrCat("plan: the number of stages is ", input.stages,
                       ", expected at most ", most, ", the number of ", what));
    }
  }
  return absl::OkStatus();
}

struct Answer {
  Layout layout;
  double seconds = kInfinity;
  bool exact = false;
};

Answer Solve(const Cluster& cluster) {
  Answer answer;
  if (mixed::FewEnough(cluster)) {
    answer.layout = mixed::ExactLayout(cluster);
    answer.exact = true;
    if (!answer.layout.empty()) {
      answer.seconds = cluster.Seconds(answer.layout);
    }
    return answer;
  }
  // Many starts, of which the quickest are improved.
  std::vector<std::pair<double, Layout>> starts;
  const auto add = [&](Layout layout) {
    if (layout.empty()) return;
    const double seconds = cluster.Seconds(layout);
    starts.emplace_back(seconds, std::move(layout));
  };
  for (const bool near : {true, false}) {
    const mixed::Typical links = mixed::TypicalLinks(cluster, near);
    add(mixed::CountedLayout(cluster, links));
    for (const mixed::RunOrder order :
         {mixed::RunOrder::kByNode, mixed::RunOrder::kFastestFirst,
          mixed::RunOrder::kSlowestFirst}) {
      add(mixed::RunLayout(cluster, order, links));
    }
  }
  std::stable_sort(
      starts.begin(), starts.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  if (starts.size() > kImproved) starts.resize(kImproved);
  for (auto& [unused, start] : starts) {
    Layout layout = mixed::Improve(cluster, std::move(start));
    const double seconds = cluster.Seconds(layout);
    if (seconds < answer.seconds) {
      answer.layout = std::move(layout);
      answer.seconds = seconds;
    }
  }
  return answer;
}

// The stages of a layout with their devices, of which `names` are the numbers.
std::vector<MixedStage> ToStages(const Cluster& cluster, const Layout& layout,
                                 const std::vector<int>& names) {
  const std::vector<mixed::Group>& groups = cluster.groups();
  std::vector<size_t> given(groups.size(), 0);
  std::vector<MixedStage> stages;
  for (size_t s = 0; s < layout.size(); ++s) {
    const Part& part = layout[s];
    const std::vector<int> shares = cluster.CostOf(layout, s).shares;
    std::vector<size_t> order(groups.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto seconds = [&](size_t g) {
      return cluster.cost().Compute(groups[g].kind, part.first, part.last);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return seconds(a) < seconds(b);
    });
    MixedStage stage = {part.first, part.last, {}, {}};
    for (const size_t g : order) {
      for (int n = 0; n < part.counts[g]; ++n) {
        stage.devices.push_back(names[groups[g].members[given[g]++]]);
        if (!shares.empty()) stage.shares.push_back(shares[groups[g].kind]);
      }
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

// The kinds that devices have, the fastest over all layers first.
std::vector<int> KindsBySpeed(const MixedInput& input) {
  std::vector<int> kinds;
  for (const MixedDevice& device : input.devices) {
    if (std::find(kinds.begin(), kinds.end(), device.kind) == kinds.end()) {
      kinds.push_back(device.kind);
    }
  }
  std::sort(kinds.begin(), kinds.end(), [&](int a, int b) {
    const auto total = [&](int k) {
      return std::accumulate(input.seconds[k].begin(), input.seconds[k].end(),
                             0.0);
    };
    return std::make_pair(total(a), a) < std::make_pair(total(b), b);
  });
  return kinds;
}

// The input with the devices of the first `most` of `kinds` alone; their
// numbers in `names`.
MixedInput Only(const MixedInput& input, const std::vector<int>& kinds,
                size_t most, std::vector<int>* names) {
  MixedInput only = input;
  only.devices.clear();
  for (size_t d = 0; d < input.devices.size(); ++d) {
    const auto end = kinds.begin() + static_cast<std::ptrdiff_t>(most);
    if (std::find(kinds.begin(), end, input.devices[d].kind) == end) continue;
    only.devices.push_back(input.devices[d]);
    names->push_back(static_cast<int>(d));
  }
  if (input.link) {
    only.link = [&input, numbers = *names](int a, int b) {
      return input.link(numbers[a], numbers[b]);
    };
  }
  return only;
}

}  // namespace

absl::StatusOr<MixedPartition> Mixed(const MixedInput& input) {
  RETURN_IF_ERROR(CheckInput(input));
  const std::vector<int> kinds = KindsBySpeed(input);
  MixedPartition partition;
  partition.seconds = kInfinity;
  // All of them first: if that is exact there is no more to be found.
  for (size_t most = kinds.size(); most >= 1 && !partition.exact; --most) {
    std::vector<int> names;
    const MixedInput only = Only(input, kinds, most, &names);
    if (input.stages > static_cast<int>(names.size())) break;
    const Cluster cluster(only);
    const Answer answer = Solve(cluster);
    partition.exact = answer.exact && most == kinds.size();
    if (answer.seconds >= partition.seconds) continue;
    partition.seconds = answer.seconds;
    partition.stages = ToStages(cluster, answer.layout, names);
  }
  if (partition.stages.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no partition of ", input.layers(), " layers over ",
        input.devices.size(), " devices of ", kinds.size(),
        kinds.size() == 1 ? " kind" : " kinds", " fits into memory"));
  }
  return partition;
}

double MixedSeconds(const MixedInput& input,
                    absl::Span<const MixedStage> stages) {
  const mixed::StageCost cost(input);
  const auto slowest_link = [&](const std::vector<int>& a,
                                const std::vector<int>& b) {
    Link slowest;
    for (const int x : a) {
      for (const int y : b) {
        if (x == y || !input.link) continue;
        slowest =
            mixed::Slower(slowest, input.link(std::min(x, y), std::max(x, y)));
      }
    }
    return slowest;
  };
  double seconds = 0;
  int behind = 0;
  for (size_t s = stages.size(); s-- > 0;) {
    const MixedStage& stage = stages[s];
    const int members = static_cast<int>(stage.devices.size());
    double messages = 0;
    double blocked = 0;
    if (s > 0) {
      const Link in = slowest_link(stages[s - 1].devices, stage.devices);
      messages += cost.Messages(stage.first - 1, in);
      blocked += cost.Blocked(stage.first - 1, in);
    }
    if (s + 1 < stages.size()) {
      const Link out = slowest_link(stage.devices, stages[s + 1].devices);
      messages += cost.Messages(stage.last, out);
      blocked += cost.Blocked(stage.last, out);
    }
    const double ring = cost.Ring(stage.first, stage.last, members,
                                  slowest_link(stage.devices, stage.devices));
    double longest = 0;
    int round = 0;
    for (int q = 0; q < members; ++q) {
      const int kind = input.devices[stage.devices[q]].kind;
      if (input.fits &&
          !input.fits({kind, stage.first, stage.last, members, behind})) {
        return kInfinity;
      }
      const int share = stage.shares.empty() ? 1 : stage.shares[q];
      const double unit = cost.Compute(kind, stage.first, stage.last) + blocked;
      longest = std::max({longest, share * unit + ring, share * messages});
      round += share;
    }
    seconds = std::max(seconds, longest / round);
    behind += members;
  }
  return seconds;
}

std::vector<int> SharesFor(absl::Span<const double> unit_seconds) {
  // Each replica is a kind of its own, but equal ones count together.
  std::vector<double> different(unit_seconds.begin(), unit_seconds.end());
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()),
                  different.end());
  const auto kind = [&](double seconds) {
    return std::lower_bound(different.begin(), different.end(), seconds) -
           different.begin();
  };
  std::vector<int> counts(different.size(), 0);
  for (const double seconds : unit_seconds) ++counts[kind(seconds)];
  const std::vector<int> by_kind = mixed::SharesByKind(counts, different);
  std::vector<int> shares;
  if (by_kind.empty()) return shares;
  for (const double seconds : unit_seconds) {
    shares.push_back(by_kind[kind(seconds)]);
  }
  return shares;
}

}  // namespace pipework
