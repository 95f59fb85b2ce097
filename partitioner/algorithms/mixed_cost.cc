#include "partitioner/algorithms/mixed_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace pipework {
namespace mixed {
namespace {

constexpr int kLargestRound = 16;
// A round that is larger than it need be must save so much.
constexpr double kWorthIt = 0.995;

// Sums of seconds differ in the last bit from the products they stand for.
int Times(double tau, double unit_seconds) {
  return static_cast<int>(tau / unit_seconds * (1 + 1e-12) + 1e-9);
}

}  // namespace

std::vector<int> SharesByKind(const std::vector<int>& counts,
                              const std::vector<double>& unit_seconds) {
  const size_t kinds = counts.size();
  int members = 0;
  double slowest = 0;
  double fastest = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < kinds; ++k) {
    if (counts[k] == 0) continue;
    members += counts[k];
    slowest = std::max(slowest, unit_seconds[k]);
    fastest = std::min(fastest, unit_seconds[k]);
  }
  if (fastest <= 0 || fastest == slowest) return {};

  struct Way {
    int64_t round;
    double seconds;  // for each of its units
    std::vector<int> shares;
  };
  const int limit = std::max(kLargestRound, 2 * members);
  std::vector<Way> ways;
  std::vector<int> shares(kinds);
  for (size_t k = 0; k < kinds; ++k) {
    if (counts[k] == 0) continue;
    for (int n = 1;; ++n) {
      const double tau = n * unit_seconds[k];
      int64_t round = 0;
      int common = 0;
      for (size_t c = 0; c < kinds; ++c) {
        shares[c] = counts[c] == 0 ? 0 : Times(tau, unit_seconds[c]);
        round += int64_t{shares[c]} * counts[c];
        common = std::gcd(common, shares[c]);
      }
      if (round > limit) break;
      if (tau < slowest * (1 - 1e-12) || common > 1) continue;
      ways.push_back({round, tau / static_cast<double>(round), shares});
    }
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
    return a.round != b.round ? a.round < b.round : a.seconds < b.seconds;
  });
  double seconds = slowest / members;
  std::vector<int> best;
  for (const Way& way : ways) {
    if (way.seconds >= seconds * kWorthIt) continue;
    seconds = way.seconds;
    best = way.shares;
  }
  return best;
}

Link Slower(const Link& a, const Link& b) {
  Link slower = a;
  if (b.bytes_per_second > 0 &&
      (a.bytes_per_second <= 0 || b.bytes_per_second < a.bytes_per_second)) {
    slower.bytes_per_second = b.bytes_per_second;
  }
  slower.latency_seconds = std::max(a.latency_seconds, b.latency_seconds);
  slower.compute_share = std::max(a.compute_share, b.compute_share);
  return slower;
}

StageCost::StageCost(const MixedInput& input)
    : input_(input), layers_(input.layers()), weights_({0}) {
  for (const std::vector<double>& kind : input.seconds) {
    std::vector<double> sums = {0};
    for (const double seconds : kind) sums.push_back(sums.back() + seconds);
    seconds_.push_back(std::move(sums));
  }
  for (const double bytes : input.weight_bytes) {
    weights_.push_back(weights_.back() + bytes);
  }
}

double StageCost::Messages(int layer, const Link& link) const {
  const double bytes = input_.cut_bytes[layer];
  return bytes > 0 ? 2 * link.Seconds(bytes) : 0;
}

Shared StageCost::Of(const std::vector<int>& counts, int first, int last,
                     const Link& ring, const Link& in, const Link& out) const {
  int members = 0;
  std::vector<double> unit(counts.size());
  for (size_t k = 0; k < counts.size(); ++k) {
    members += counts[k];
    unit[k] = Compute(static_cast<int>(k), first, last);
  }
  double messages = 0;
  double blocked = 0;
  if (first > 0) {
    messages += Messages(first - 1, in);
    blocked += Blocked(first - 1, in);
  }
  if (last + 1 < layers_) {
    messages += Messages(last, out);
    blocked += Blocked(last, out);
  }
  for (double& seconds : unit) seconds += blocked;
  const double synchronised = Ring(first, last, members, ring);

  // A unit takes a replica no less than its messages.
  std::vector<double> busy = unit;
  for (double& seconds : busy) seconds = std::max(seconds, messages);
  Shared shared;
  shared.shares = SharesByKind(counts, busy);
  double longest = 0;
  int64_t round = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] == 0) continue;
    const int share = shared.shares.empty() ? 1 : shared.shares[k];
    longest =
        std::max({longest, share * unit[k] + synchronised, share * messages});
    round += int64_t{share} * counts[k];
  }
  shared.seconds = longest / static_cast<double>(round);
  return shared;
}

double StageCost::LeastSeconds(const std::vector<int>& counts, int first,
                               int last) const {
  double rate = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] == 0) continue;
    const double seconds = Compute(static_cast<int>(k), first, last);
    if (seconds <= 0) return 0;
    rate += counts[k] / seconds;
  }
  return (1 - 1e-9) / rate;
}

}  // namespace mixed
}  // namespace pipework
