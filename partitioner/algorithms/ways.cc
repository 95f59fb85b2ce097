#include "partitioner/algorithms/ways.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipework {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMostTries = 40;
constexpr double kCloseEnough = 1 + 1e-7;
constexpr double kRounding = 1 + 1e-9;

void Merge(WorkerRange more, WorkerRange* range) {
  range->least = std::min(range->least, more.least);
  range->most = std::max(range->most, more.most);
}

// The sum of two, up to `most`; empty if either is.
WorkerRange Sum(WorkerRange a, WorkerRange b, int most) {
  if (a.empty() || b.empty()) return {};
  return {a.least + b.least, std::min(most, a.most + b.most)};
}

WorkerRange Common(WorkerRange a, WorkerRange b) {
  return {std::max(a.least, b.least), std::min(a.most, b.most)};
}

// Where `seconds` is small, if it falls and then rises.
int FastestReplicas(const std::function<double(int)>& seconds, int widest) {
  int best = 1;
  double best_seconds = seconds(1);
  const auto ask = [&](int m) {
    const double t = seconds(m);
    if (t < best_seconds) {
      best = m;
      best_seconds = t;
    }
    return t;
  };
  for (int m = 2; m < widest; m *= 2) ask(m);
  ask(widest);
  int low = std::max(1, best / 2);
  int high = static_cast<int>(std::min<int64_t>(widest, int64_t{best} * 2));
  while (high - low > 2) {
    const int third = (high - low) / 3;
    if (ask(low + third) <= ask(high - third)) {
      high -= third;
    } else {
      low += third;
    }
  }
  return best;
}

}  // namespace

// By state, and for each number of stages up to it.
struct Ways::Reach {
  std::vector<WorkerRange> before;
  std::vector<WorkerRange> after;
};

Ways::Ways(const Lattice& lattice, Pipelines pipelines)
    : lattice_(lattice), pipelines_(std::move(pipelines)) {
  const int start = pipelines_.start;
  const int end = pipelines_.end;
  const std::vector<bool> between = lattice.Holding(start, end);
  std::vector<bool> inside(end + 1, false);
  inside[end] = true;
  for (const int j : lattice.Inside(end)) inside[j] = between[j];
  first_.assign(end + 2, 0);
  for (int j = start + 1; j <= end; ++j) {
    first_[j] = ways_.size();
    if (inside[j] && between[j]) {
      for (const int s : lattice.Inside(j)) {
        if (s < start || !between[s]) continue;
        ways_.push_back({s, j, s == start ? 0 : pipelines_.cut_seconds(s), {}});
      }
    }
    first_[j + 1] = ways_.size();
  }
}

WorkerRange Ways::Replicas(WorkerRange of_way, int stage) const {
  if (pipelines_.replicas.empty()) return of_way;
  const int pinned = pipelines_.replicas[stage - 1];
  return Common(of_way, {pinned, pinned});
}

Ways::Reach Ways::ReachOf(const std::vector<WorkerRange>& replicas) const {
  const int K = pipelines_.stages;
  const int M = pipelines_.workers;
  Reach reach;
  const size_t cells = static_cast<size_t>(pipelines_.end + 1) * Layers();
  reach.before.resize(cells);
  reach.after.resize(cells);
  const auto at = [this](int j, int k) {
    return static_cast<size_t>(j) * Layers() + k;
  };
  const int first_k = K > 0 ? 1 : 0;
  const int step = first_k;
  reach.before[at(pipelines_.start, 0)] = {0, pipelines_.idle ? M : 0};
  for (size_t w = 0; w < ways_.size(); ++w) {
    if (replicas[w].empty()) continue;
    const Way& way = ways_[w];
    for (int k = first_k; k <= K; ++k) {
      const WorkerRange left = reach.before[at(way.from, k - step)];
      if (left.empty()) continue;
      Merge(Sum(left, Replicas(replicas[w], k), M),
            &reach.before[at(way.to, k)]);
    }
  }
  reach.after[at(pipelines_.end, K)] = {0, 0};
  for (size_t w = ways_.size(); w > 0; --w) {
    if (replicas[w - 1].empty()) continue;
    const Way& way = ways_[w - 1];
    for (int k = first_k; k <= K; ++k) {
      const WorkerRange right = reach.after[at(way.to, k)];
      if (right.empty()) continue;
      Merge(Sum(right, Replicas(replicas[w - 1], k), M),
            &reach.after[at(way.from, k - step)]);
    }
  }
  return reach;
}

double Ways::Construct(double x, const std::vector<WorkerRange>& replicas,
                       const Reach& reach) const {
  const int step = pipelines_.stages > 0 ? 1 : 0;
  double seconds = 0;
  int need = pipelines_.workers;
  int k = pipelines_.stages;
  for (int j = pipelines_.end; j != pipelines_.start;) {
    bool found = false;
    for (size_t w = first_[j]; w < first_[j + 1] && !found; ++w) {
      const WorkerRange own = Replicas(replicas[w], k);
      const WorkerRange left =
          reach
              .before[static_cast<size_t>(ways_[w].from) * Layers() + k - step];
      if (own.empty() || left.empty()) continue;
      const WorkerRange common =
          Common(own, {need - left.most, need - left.least});
      if (common.empty()) continue;
      const int from = ways_[w].from;
      // One replica has no ring, so that it may be fast and two not.
      for (const int m : {common.most, common.least}) {
        const double t = pipelines_.stage_seconds(from, j, m);
        if (t > x) continue;
        if (pipelines_.fits && !pipelines_.fits(from, j, m, need - m)) continue;
        seconds = std::max({seconds, ways_[w].cut, t});
        need -= m;
        k -= step;
        j = from;
        found = true;
        break;
      }
    }
    if (!found) return kInfinity;
  }
  return seconds;
}

double Ways::QuickSeconds(double limit) const {
  const int widest = pipelines_.widest;
  std::vector<int> fastest;
  std::vector<double> least;
  fastest.reserve(ways_.size());
  for (const Way& way : ways_) {
    const auto seconds = [&](int m) {
      return pipelines_.stage_seconds(way.from, way.to, m);
    };
    fastest.push_back(FastestReplicas(seconds, widest));
    least.push_back(seconds(fastest.back()));
  }
  double low = lattice_.Seconds(pipelines_.start, pipelines_.end) *
               pipelines_.share / pipelines_.workers;
  double high = limit;
  double best = kInfinity;
  std::vector<WorkerRange> replicas(ways_.size());
  for (int n = 0; n < kMostTries; ++n) {
    double x = high;
    if (n > 0) x = low > 0 ? std::sqrt(low) * std::sqrt(high) : high / 16;
    for (size_t w = 0; w < ways_.size(); ++w) {
      const Way& way = ways_[w];
      replicas[w] = {};
      if (least[w] > x || way.cut > x) continue;
      const auto fast = [&](int m) {
        return pipelines_.stage_seconds(way.from, way.to, m) <= x;
      };
      int slow = 0;
      int good = fast(1) ? 1 : fastest[w];
      while (good - slow > 1) {
        const int m = slow + (good - slow) / 2;
        (fast(m) ? good : slow) = m;
      }
      replicas[w].least = good;
      slow = widest + 1;
      good = fastest[w];
      if (fast(widest)) good = widest;
      while (slow - good > 1 && good < widest) {
        const int m = good + (slow - good) / 2;
        (fast(m) ? good : slow) = m;
      }
      replicas[w].most = good;
    }
    const double found = Construct(x, replicas, ReachOf(replicas));
    best = std::min(best, found);
    if (found < kInfinity) {
      high = std::min({high, x, found});
    } else if (n == 0) {
      break;
    } else {
      low = x;
    }
    if (high <= low * kCloseEnough || high == 0) break;
  }
  return best;
}

void Ways::KeepBelow(double limit) {
  std::vector<WorkerRange> replicas(ways_.size());
  for (size_t w = 0; w < ways_.size(); ++w) {
    Way& way = ways_[w];
    way.replicas = {};
    if (way.cut > limit) continue;
    const auto slow = [&](int m) {
      const double t = pipelines_.stage_seconds(way.from, way.to, m);
      return t > limit || t == kInfinity;
    };
    // No stage is faster than its computing shared by all its replicas.
    const double shared =
        lattice_.Seconds(way.from, way.to) * pipelines_.share / limit;
    if (shared > 1.0 * pipelines_.widest * kRounding) continue;
    int least = std::max(1, static_cast<int>(shared / kRounding));
    while (least <= pipelines_.widest && slow(least)) ++least;
    if (least > pipelines_.widest) continue;
    int most = pipelines_.widest;
    while (slow(most)) --most;
    way.replicas = {least, most};
    replicas[w] = way.replicas;
  }
  const Reach reach = ReachOf(replicas);
  used_.assign(reach.before.size(), {});
  for (size_t c = 0; c < used_.size(); ++c) {
    if (reach.before[c].empty() || reach.after[c].empty()) continue;
    used_[c] =
        Common(reach.before[c], {pipelines_.workers - reach.after[c].most,
                                 pipelines_.workers - reach.after[c].least});
  }
}

WorkerRange Ways::Used(int state, int stages) const {
  return used_[static_cast<size_t>(state) * Layers() + stages];
}

}  // namespace pipework
