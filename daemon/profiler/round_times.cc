#include "daemon/profiler/round_times.h"

#include <algorithm>
#include <cmath>

namespace pipework {
namespace {

constexpr double kColdFactor = 2;
constexpr double kOwnCore = 0.95;
constexpr double kMostDisturbed = 0.10;
constexpr double kMostSpread = 0.30;
constexpr double kClockUnrestSeconds = 3e-6;
constexpr double kMostNoisyShare = 0.25;
constexpr double kMostDrift = 0.20;
// Fewer rounds have no halves to compare.
constexpr size_t kRoundsForDrift = 8;

double MedianWall(absl::Span<const RoundTime> rounds,
                  absl::Span<const size_t> counted) {
  std::vector<double> walls;
  for (const size_t round : counted)
    walls.push_back(rounds[round].wall_seconds);
  const size_t middle = walls.size() / 2;
  std::nth_element(walls.begin(), walls.begin() + middle, walls.end());
  return walls[middle];
}

}  // namespace

size_t ColdRounds(absl::Span<const RoundTime> rounds) {
  if (rounds.empty()) return 0;
  double fastest = rounds[0].wall_seconds;
  for (const RoundTime& round : rounds) {
    fastest = std::min(fastest, round.wall_seconds);
  }
  size_t cold = 1;
  while (cold < rounds.size() &&
         rounds[cold].wall_seconds > kColdFactor * fastest) {
    ++cold;
  }
  return cold;
}

std::vector<size_t> CountedRounds(absl::Span<const RoundTime> rounds,
                                  size_t enough) {
  std::vector<size_t> warm;
  std::vector<size_t> own;
  for (size_t i = ColdRounds(rounds); i < rounds.size(); ++i) {
    warm.push_back(i);
    if (rounds[i].cpu_seconds >= kOwnCore * rounds[i].wall_seconds) {
      own.push_back(i);
    }
  }
  return own.size() >= enough ? own : warm;
}

double DisturbedShare(absl::Span<const RoundTime> rounds) {
  double wall = 0;
  double cpu = 0;
  for (size_t i = ColdRounds(rounds); i < rounds.size(); ++i) {
    wall += rounds[i].wall_seconds;
    cpu += std::min(rounds[i].cpu_seconds, rounds[i].wall_seconds);
  }
  return wall > 0 ? 1 - cpu / wall : 0;
}

double Quantile(absl::Span<const double> values,
                absl::Span<const size_t> counted, double q) {
  if (counted.empty()) return 0;
  std::vector<double> sorted;
  sorted.reserve(counted.size());
  for (const size_t i : counted) sorted.push_back(values[i]);
  std::sort(sorted.begin(), sorted.end());
  const double rank = q * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = rank - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

double Spread(absl::Span<const double> values,
              absl::Span<const size_t> counted) {
  const double median = Quantile(values, counted, 0.5);
  if (!(median > 0)) return 0;
  return (Quantile(values, counted, 0.75) - Quantile(values, counted, 0.25)) /
         median;
}

bool IsNoisy(double median_seconds, double spread) {
  return spread > kMostSpread && spread * median_seconds > kClockUnrestSeconds;
}

bool WasBusy(absl::Span<const RoundTime> rounds,
             absl::Span<const size_t> counted,
             absl::Span<const LayerNoise> layers) {
  if (DisturbedShare(rounds) > kMostDisturbed) return true;
  double noisy = 0;
  double all = 0;
  for (const LayerNoise& layer : layers) {
    all += layer.seconds;
    if (layer.noisy) noisy += layer.seconds;
  }
  if (noisy > kMostNoisyShare * all) return true;
  if (counted.size() < kRoundsForDrift) return false;
  const double first = MedianWall(rounds, counted.first(counted.size() / 2));
  const double second = MedianWall(rounds, counted.last(counted.size() / 2));
  return std::abs(second - first) > kMostDrift * std::min(first, second);
}

}  // namespace pipework
