#include "partitioner/algorithms/mixed.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>

namespace pipework {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- everything there is
// -----------------------------------------------------

// The shares of replicas that need so many seconds for a unit, by the words of
// mixed.h: every vector is looked at.
std::vector<int> SharesByTrying(const std::vector<double>& unit) {
  const size_t m = unit.size();
  const int limit = std::max<int>(16, static_cast<int>(2 * m));
  const auto round_seconds = [&](const std::vector<int>& shares) {
    double longest = 0;
    for (size_t q = 0; q < m; ++q) {
      longest = std::max(longest, shares[q] * unit[q]);
    }
    return longest;
  };
  std::map<int, std::pair<double, std::vector<int>>> best_of_round;
  std::vector<int> shares(m, 1);
  while (*std::min_element(unit.begin(), unit.end()) > 0) {
    const int round = std::accumulate(shares.begin(), shares.end(), 0);
    if (round <= limit) {
      int common = 0;
      bool full = true;  // nobody could run one more
      const double longest = round_seconds(shares);
      for (size_t q = 0; q < m; ++q) {
        common = std::gcd(common, shares[q]);
        full = full && (shares[q] + 1) * unit[q] > longest * (1 + 1e-9);
      }
      const auto found = best_of_round.find(round);
      if (common == 1 && full &&
          (found == best_of_round.end() ||
           longest / round < found->second.first)) {
        best_of_round[round] = {longest / round, shares};
      }
    }
    size_t q = 0;
    while (q < m && shares[q] == limit) shares[q++] = 1;
    if (q == m) break;
    ++shares[q];
    // Leave out what cannot fit.
    while (std::accumulate(shares.begin(), shares.end(), 0) > limit) {
      shares[q] = 1;
      if (++q == m) break;
      ++shares[q];
    }
    if (q == m) break;
  }
  std::vector<int> best(m, 1);
  double seconds = round_seconds(best) / static_cast<double>(m);
  for (const auto& [round, way] : best_of_round) {
    if (way.first >= seconds * 0.995) continue;
    seconds = way.first;
    best = way.second;
  }
  return best;
}

class Everything {
 public:
  explicit Everything(const MixedInput& input)
      : input_(input), N_(input.layers()), D_(input.devices.size()) {}

  double Best() {
    Cut(0);
    return best_;
  }

 private:
  struct Range {
    int first, last;
  };

  void Cut(int first) {
    if (first == N_) {
      const int stages = static_cast<int>(ranges_.size());
      if (stages > static_cast<int>(D_) ||
          (input_.stages > 0 && stages != input_.stages) ||
          (input_.max_stages > 0 && stages > input_.max_stages)) {
        return;
      }
      devices_.assign(ranges_.size(), {});
      Place(0);
      return;
    }
    for (int last = first; last < N_; ++last) {
      ranges_.push_back({first, last});
      Cut(last + 1);
      ranges_.pop_back();
    }
  }

  void Place(size_t d) {
    if (d == D_) {
      Judge();
      return;
    }
    Place(d + 1);  // idle
    for (std::vector<int>& stage : devices_) {
      if (input_.straight && !stage.empty()) continue;
      stage.push_back(static_cast<int>(d));
      Place(d + 1);
      stage.pop_back();
    }
  }

  void Judge() {
    for (const std::vector<int>& stage : devices_) {
      if (stage.empty()) return;
    }
    double slowest = 0;
    int behind = 0;
    for (size_t s = ranges_.size(); s-- > 0;) {
      const Range& range = ranges_[s];
      const int m = static_cast<int>(devices_[s].size());
      for (const int d : devices_[s]) {
        if (input_.fits && !input_.fits({input_.devices[d].kind, range.first,
                                         range.last, m, behind})) {
          return;
        }
      }
      behind += m;
      double messages = 0;
      double blocked = 0;  // of those, where nothing is computed
      const auto cross = [&](int layer, const Link& link) {
        if (input_.cut_bytes[layer] == 0) return;
        const double seconds = 2 * link.Seconds(input_.cut_bytes[layer]);
        messages += seconds;
        blocked += link.compute_share * seconds;
      };
      if (s > 0) cross(range.first - 1, Worst(devices_[s - 1], devices_[s]));
      if (s + 1 < ranges_.size()) {
        cross(range.last, Worst(devices_[s], devices_[s + 1]));
      }
      slowest = std::max(slowest, Stage(devices_[s], range, messages, blocked));
      if (slowest >= best_) return;
    }
    best_ = slowest;
  }

  Link Worst(const std::vector<int>& a, const std::vector<int>& b) const {
    Link worst;
    for (const int x : a) {
      for (const int y : b) {
        if (x == y) continue;
        const Link link = input_.link(std::min(x, y), std::max(x, y));
        if (worst.bytes_per_second == 0 ||
            link.bytes_per_second < worst.bytes_per_second) {
          worst.bytes_per_second = link.bytes_per_second;
        }
        worst.latency_seconds =
            std::max(worst.latency_seconds, link.latency_seconds);
        worst.compute_share = std::max(worst.compute_share, link.compute_share);
      }
    }
    return worst;
  }

  double Stage(const std::vector<int>& devices, const Range& range,
               double messages, double blocked) {
    int mask = 0;
    for (const int d : devices) mask |= 1 << d;
    const auto key =
        std::make_tuple(mask, range.first, range.last, messages, blocked);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    std::vector<double> unit;
    std::vector<double> busy;
    double weights = 0;
    for (int l = range.first; l <= range.last; ++l) {
      weights += input_.weight_bytes[l];
    }
    for (const int d : devices) {
      double seconds = 0;
      for (int l = range.first; l <= range.last; ++l) {
        seconds += input_.seconds[input_.devices[d].kind][l];
      }
      unit.push_back(seconds + blocked);
      busy.push_back(std::max(unit.back(), messages));
    }
    const int m = static_cast<int>(devices.size());
    const double ring = RingSeconds(weights, m, Worst(devices, devices));
    const std::vector<int> shares = SharesByTrying(busy);
    double longest = 0;
    for (int q = 0; q < m; ++q) {
      longest =
          std::max({longest, shares[q] * unit[q] + ring, shares[q] * messages});
    }
    return known_[key] =
               longest / std::accumulate(shares.begin(), shares.end(), 0);
  }

  const MixedInput& input_;
  const int N_;
  const size_t D_;
  std::vector<Range> ranges_;
  std::vector<std::vector<int>> devices_;
  std::map<std::tuple<int, int, int, double, double>, double> known_;
  double best_ = kInfinity;
};

// ---- random inputs
// ------------------------------------------------------------

struct Sizes {
  int layers;
  int devices;
  int kinds;
  int nodes;
};

// Whole numbers from a fixed engine: equal on every machine.
MixedInput RandomInput(uint32_t seed, const Sizes& sizes) {
  std::mt19937 random(seed);
  const auto below = [&random](uint32_t end) { return random() % end; };
  MixedInput input;
  for (int l = 0; l < sizes.layers; ++l) {
    input.weight_bytes.push_back(below(30));
    input.cut_bytes.push_back(below(20));
  }
  for (int k = 0; k < sizes.kinds; ++k) {
    // A kind is some times slower, and no two layers alike.
    const double slower = 1 + 0.25 * below(12);
    input.seconds.emplace_back();
    for (int l = 0; l < sizes.layers; ++l) {
      input.seconds.back().push_back(slower * (1 + below(9)) +
                                     0.125 * below(8));
    }
  }
  for (int d = 0; d < sizes.devices; ++d) {
    input.devices.push_back({static_cast<int>(below(sizes.kinds)),
                             static_cast<int>(below(sizes.nodes))});
  }
  std::vector<Link> links;
  const bool by_pair = below(3) == 0 && sizes.devices <= 6;
  const Link within = {8.0 + below(40), 0.0625 * below(3), 0.125 * below(2)};
  const Link between = {1.0 + below(10), 0.125 * below(4), 0.25 * below(3)};
  for (int a = 0; a < sizes.devices; ++a) {
    for (int b = 0; b < sizes.devices; ++b) {
      const bool near = input.devices[a].node == input.devices[b].node;
      links.push_back(near ? within : between);
      if (by_pair) links.back().bytes_per_second = 2.0 * (1 + below(3));
    }
  }
  input.link = [links, devices = sizes.devices](int a, int b) {
    return links[std::min(a, b) * devices + std::max(a, b)];
  };
  return input;
}

// As much as a third or so of all that could be asked for.
void LimitMemory(MixedInput* input, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> limits;
  double all = 0;
  for (const double bytes : input->weight_bytes) all += bytes;
  for (size_t k = 0; k < input->seconds.size(); ++k) {
    limits.push_back(all * (0.3 + 0.1 * (random() % 12)));
  }
  input->fits = [weights = input->weight_bytes, limits](const MixedFit& fit) {
    double bytes = 0;
    for (int l = fit.first; l <= fit.last; ++l) bytes += weights[l];
    // More is held by stages with many behind them.
    const int versions = (fit.behind + fit.replicas - 1) / fit.replicas + 1;
    return bytes * (1 + 0.2 * versions) <= limits[fit.kind];
  };
}

void CheckWhole(const MixedInput& input, const MixedPartition& partition) {
  int next = 0;
  std::set<int> used;
  for (const MixedStage& stage : partition.stages) {
    CHECK(stage.first == next);
    CHECK(stage.last >= stage.first);
    next = stage.last + 1;
    CHECK_FALSE(stage.devices.empty());
    for (const int device : stage.devices) CHECK(used.insert(device).second);
    CHECK(
        (stage.shares.empty() || stage.shares.size() == stage.devices.size()));
    CHECK(std::accumulate(stage.shares.begin(), stage.shares.end(), 0) <=
          std::max<int>(16, static_cast<int>(2 * stage.devices.size())));
  }
  CHECK(next == input.layers());
  CHECK(MixedSeconds(input, partition.stages) == Approx(partition.seconds));
}

void CompareWithEverything(const MixedInput& input) {
  const double best = Everything(input).Best();
  const auto partition = Mixed(input);
  if (best == kInfinity) {
    CHECK(absl::IsFailedPrecondition(partition.status()));
    return;
  }
  REQUIRE(partition.ok());
  CheckWhole(input, *partition);
  CHECK(partition->exact);
  CHECK(partition->seconds == Approx(best).epsilon(1e-9));
}

// ---- the tests
// ----------------------------------------------------------------

TEST_CASE("mixed: no way to cut, seat and share is faster") {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed + 1000);
    const auto pick = [&random](int most) {
      return 1 + static_cast<int>(random() % static_cast<uint32_t>(most));
    };
    const Sizes sizes = {pick(8), pick(5), pick(3), pick(3)};
    MixedInput input = RandomInput(seed, sizes);
    if (seed % 3 == 0) LimitMemory(&input, seed);
    CAPTURE(seed, sizes.layers, sizes.devices, sizes.kinds, sizes.nodes);
    CompareWithEverything(input);
  }
}

TEST_CASE("mixed: eight layers on five devices, against every way there is") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    MixedInput input = RandomInput(seed, {8, 5, 1 + static_cast<int>(seed % 3),
                                          1 + static_cast<int>(seed % 2)});
    if (seed % 4 == 3) LimitMemory(&input, seed);
    CAPTURE(seed);
    CompareWithEverything(input);
  }
}

TEST_CASE("mixed: pinned and limited stages, against every way there is") {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    MixedInput input = RandomInput(seed + 500, {5, 4, 2, 2});
    const int stages = 1 + static_cast<int>(seed % 4);
    if (seed % 3 == 0) input.stages = stages;
    if (seed % 3 == 1) input.max_stages = stages;
    input.straight = seed % 2 == 0;
    CAPTURE(seed, stages);
    CompareWithEverything(input);
  }
}

TEST_CASE("mixed: one kind and one link cost what the cost model says") {
  const CostModel* const model = *FindCostModel("pipework");
  for (uint32_t seed = 0; seed < 50; ++seed) {
    MixedInput input = RandomInput(seed, {6, 4, 1, 1});
    const Link link = {3, 0.125, 0.25};
    input.link = [link](int, int) { return link; };
    const auto partition = Mixed(input);
    REQUIRE(partition.ok());
    double slowest = 0;
    for (const MixedStage& stage : partition->stages) {
      StageLoad load;
      for (int l = stage.first; l <= stage.last; ++l) {
        load.compute_seconds += input.seconds[0][l];
        load.weight_bytes += input.weight_bytes[l];
      }
      if (stage.first > 0) load.input_bytes = input.cut_bytes[stage.first - 1];
      if (stage.last + 1 < input.layers()) {
        load.output_bytes = input.cut_bytes[stage.last];
      }
      slowest = std::max(
          slowest, model->StageSeconds(
                       load, static_cast<int>(stage.devices.size()), link));
      CHECK(stage.shares.empty());
    }
    CAPTURE(seed);
    CHECK(partition->seconds == Approx(slowest));
  }
}

TEST_CASE("mixed: more devices never make it slower than the fast ones alone") {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const MixedInput input = RandomInput(
        seed, {6 + static_cast<int>(seed), 10 + 3 * static_cast<int>(seed),
               2 + static_cast<int>(seed % 3), 1 + static_cast<int>(seed % 7)});
    const auto partition = Mixed(input);
    REQUIRE(partition.ok());
    CheckWhole(input, *partition);
    std::vector<std::pair<double, int>> kinds;
    for (size_t k = 0; k < input.seconds.size(); ++k) {
      kinds.emplace_back(std::accumulate(input.seconds[k].begin(),
                                         input.seconds[k].end(), 0.0),
                         static_cast<int>(k));
    }
    std::sort(kinds.begin(), kinds.end());
    for (size_t most = 1; most < kinds.size(); ++most) {
      MixedInput fast = input;
      fast.devices.clear();
      std::vector<int> names;
      for (size_t d = 0; d < input.devices.size(); ++d) {
        for (size_t k = 0; k < most; ++k) {
          if (input.devices[d].kind != kinds[k].second) continue;
          fast.devices.push_back(input.devices[d]);
          names.push_back(static_cast<int>(d));
        }
      }
      if (fast.devices.empty()) continue;
      fast.link = [&](int a, int b) { return input.link(names[a], names[b]); };
      const auto alone = Mixed(fast);
      REQUIRE(alone.ok());
      CAPTURE(seed, most);
      CHECK(partition->seconds <= alone->seconds * (1 + 1e-9));
    }
  }
}

TEST_CASE("mixed: hundreds of devices come near to what they can do together") {
  for (const int kinds : {1, 2, 4}) {
    MixedInput input;
    for (int l = 0; l < 50; ++l) {
      input.weight_bytes.push_back(1e6 * (1 + l % 7));
      input.cut_bytes.push_back(1e5 * (1 + l % 3));
    }
    for (int k = 0; k < kinds; ++k) {
      input.seconds.emplace_back();
      for (int l = 0; l < 50; ++l) {
        input.seconds.back().push_back((1 + 0.5 * k) * 1e-2 * (1 + l % 5));
      }
    }
    for (int d = 0; d < 256; ++d) {
      input.devices.push_back({(d / 8) % kinds, d / 8});
    }
    input.link = [&input](int a, int b) {
      return input.devices[a].node == input.devices[b].node
                 ? Link{1e11, 1e-6, 0}
                 : Link{1e10, 1e-5, 0};
    };
    double rate = 0;
    for (const MixedDevice& device : input.devices) {
      const std::vector<double>& seconds = input.seconds[device.kind];
      rate += 1 / std::accumulate(seconds.begin(), seconds.end(), 0.0);
    }
    const auto partition = Mixed(input);
    REQUIRE(partition.ok());
    CheckWhole(input, *partition);
    CAPTURE(kinds, partition->seconds * rate);
    CHECK(partition->seconds * rate < 1.25);
  }
}

TEST_CASE("mixed: a device that would only hold the others up stays idle") {
  MixedInput input;
  input.weight_bytes = {1, 1};
  input.cut_bytes = {1, 0};
  input.seconds = {{4, 4}, {90, 90}};
  input.devices = {{1, 0}, {0, 0}, {0, 0}};
  input.link = [](int, int) { return Link{100, 0, 0}; };
  const auto partition = Mixed(input);
  REQUIRE(partition.ok());
  for (const MixedStage& stage : partition->stages) {
    CHECK(std::count(stage.devices.begin(), stage.devices.end(), 0) == 0);
  }
  CHECK(partition->seconds <= 4.1);
}

TEST_CASE("mixed: a device that is twice as fast takes two of three units") {
  MixedInput input;
  input.weight_bytes = {0};
  input.cut_bytes = {0};
  input.seconds = {{6}, {3}};
  input.devices = {{0, 0}, {1, 0}};
  const auto partition = Mixed(input);
  REQUIRE(partition.ok());
  REQUIRE(partition->stages.size() == 1);
  CHECK(partition->stages[0].devices == std::vector<int>{1, 0});
  CHECK(partition->stages[0].shares == std::vector<int>{2, 1});
  CHECK(partition->seconds == 2);
}

TEST_CASE("mixed: a small device gets the stage that fits on it") {
  MixedInput input;
  input.weight_bytes = {10, 1};
  input.cut_bytes = {0, 0};
  input.seconds = {{3, 3}, {1, 1}};  // the fast kind is small
  input.devices = {{0, 0}, {1, 0}};
  input.fits = [](const MixedFit& fit) {
    return fit.kind == 0 || fit.first == 1;
  };
  const auto partition = Mixed(input);
  REQUIRE(partition.ok());
  REQUIRE(partition->stages.size() == 2);
  CHECK(partition->stages[0].devices == std::vector<int>{0});
  CHECK(partition->stages[1].devices == std::vector<int>{1});
  input.fits = [](const MixedFit& fit) { return fit.first > 0; };
  CHECK(Mixed(input).status().message() ==
        "no partition of 2 layers over 2 devices of 2 kinds fits into memory");
}

TEST_CASE("shares for devices: the smallest round that uses them well") {
  CHECK(SharesFor({1, 1, 1}).empty());
  CHECK(SharesFor({5}).empty());
  CHECK(SharesFor({1, 2}) == std::vector<int>{2, 1});
  CHECK(SharesFor({2, 1}) == std::vector<int>{1, 2});
  CHECK(SharesFor({2, 3}) == std::vector<int>{3, 2});
  CHECK(SharesFor({1, 1, 2}) == std::vector<int>{2, 2, 1});
  // Too slow to be worth a long round; a second unit each would save nothing.
  CHECK(SharesFor({1, 100}).empty());
  CHECK(SharesFor({1, 1.001}).empty());
  CHECK(SharesFor({0, 1}).empty());
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> unit;
    for (uint32_t q = 0; q <= random() % 4; ++q) {
      unit.push_back(0.25 * (1 + random() % 20));
    }
    const std::vector<int> shares = SharesFor(unit);
    CAPTURE(unit);
    CHECK((shares.empty() ? std::vector<int>(unit.size(), 1) : shares) ==
          SharesByTrying(unit));
  }
}

TEST_CASE("mixed: sizes and numbers that make no sense are refused") {
  const MixedInput good = RandomInput(1, {3, 2, 2, 1});
  const auto message = [](const MixedInput& input) {
    return std::string(Mixed(input).status().message());
  };
  MixedInput input = good;
  input.cut_bytes.pop_back();
  CHECK(message(input) ==
        "partitioner mixed: the number of cut bytes is 2, expected 3 as of "
        "layers");
  input = good;
  input.seconds[1][2] = -1;
  CHECK(message(input) ==
        "partitioner mixed: seconds on kind 1 of layer 2 is -1, expected a "
        "number from 0");
  input = good;
  input.devices[0].kind = 2;
  CHECK(absl::IsInvalidArgument(Mixed(input).status()));
  input = good;
  input.devices.clear();
  CHECK(absl::IsFailedPrecondition(Mixed(input).status()));
  input = good;
  input.stages = 3;
  CHECK(message(input) ==
        "plan: the number of stages is 3, expected at most 2, the number of "
        "devices");
  input.stages = 4;
  CHECK(absl::IsFailedPrecondition(Mixed(input).status()));
  input.stages = -1;
  CHECK(absl::IsInvalidArgument(Mixed(input).status()));
  CHECK(absl::IsInvalidArgument(Mixed({}).status()));
}

}  // namespace
}  // namespace pipework
