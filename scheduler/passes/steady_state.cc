#include "scheduler/passes/steady_state.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "proto/check.h"

namespace pipework {
namespace {

// A longer round than this is cut: the window then holds a part of one.
constexpr int64_t kLongestRound = 4096;

bool Leaves(const Program& program, const Timeline::Span& span) {
  const int stage = program.rows[span.row].stage.value();
  if (program.segment.evaluation) {
    return stage + 1 == program.shape.stages();
  }
  return stage == 0 && span.kind != ActionKind::kForward;
}

// By minibatch of the segment: when it and all before it had left.
std::vector<double> LeavingTimes(const Program& program,
                                 const Timeline& timeline) {
  const Segment& segment = program.segment;
  const int64_t units = program.unit_is_microbatch ? segment.microbatches : 1;
  std::vector<double> left(segment.minibatches, 0);
  for (const Timeline::Span& span : timeline.spans) {
    if (!Leaves(program, span)) continue;
    double& end = left[(span.unit - segment.first_unit()) / units];
    end = std::max(end, span.end);
  }
  for (size_t k = 1; k < left.size(); ++k) {
    left[k] = std::max(left[k], left[k - 1]);
  }
  return left;
}

// Minibatches after which all replicas and updates are where they were.
int64_t Round(const Program& program) {
  const int64_t accumulate =
      program.segment.evaluation ? 1 : program.segment.accumulate;
  if (program.unit_is_microbatch) return accumulate;
  int64_t round = accumulate;
  for (int s = 0; s < program.shape.stages(); ++s) {
    const int64_t units = program.shape.round(StageId{s});
    round = std::min(kLongestRound, std::lcm(round, units * accumulate));
  }
  return round;
}

SteadyState Between(const Program& program, const Timeline& timeline,
                    double begin, double end, int64_t minibatches) {
  SteadyState steady;
  steady.begin = begin;
  steady.end = end;
  steady.minibatches = minibatches;
  const size_t rows = program.rows.size();
  steady.row_utilisation.assign(rows, 0);
  steady.stage_utilisation.assign(program.shape.stages(), 0);
  const double window = end - begin;
  if (minibatches > 0) {
    steady.step_seconds = window / static_cast<double>(minibatches);
  }
  if (window <= 0 || rows == 0) return steady;
  double busy = 0;
  for (const Timeline::Span& span : timeline.spans) {
    const double inside = std::min(span.end, end) - std::max(span.begin, begin);
    if (inside <= 0) continue;
    busy += inside;
    steady.row_utilisation[span.row] += inside / window;
  }
  steady.bubble = 1 - busy / (window * static_cast<double>(rows));
  for (size_t row = 0; row < rows; ++row) {
    const int stage = program.rows[row].stage.value();
    steady.stage_utilisation[stage] +=
        steady.row_utilisation[row] / program.shape.replicas[stage];
  }
  return steady;
}

double Occupies(double bytes, const Link& link) {
  return link.bytes_per_second > 0 ? bytes / link.bytes_per_second : 0;
}

}  // namespace

SteadyState SteadyStateOf(const Program& program, const Timeline& timeline) {
  const std::vector<double> left = LeavingTimes(program, timeline);
  double first_begin = 0;
  double admits_until = 0;
  for (const Timeline::Span& span : timeline.spans) {
    first_begin = std::min(first_begin, span.begin);
    if (program.rows[span.row].stage == StageId{0} &&
        (span.kind == ActionKind::kForward ||
         span.kind == ActionKind::kEvaluate)) {
      admits_until = std::max(admits_until, span.begin);
    }
  }
  const int64_t n = static_cast<int64_t>(left.size());
  int64_t last = -1;  // leaves while others are admitted
  while (last + 1 < n && left[last + 1] <= admits_until) ++last;
  if (last < 1) {
    return Between(program, timeline, first_begin,
                   first_begin + timeline.makespan, n);
  }
  const int64_t round = Round(program);
  int64_t size = std::max<int64_t>(1, (last + 1) / 2 / round) * round;
  if (size > last) size = last;
  return Between(program, timeline, left[last - size], left[last], size);
}

SteadyState SteadyStateBetween(const Program& program, const Timeline& timeline,
                               int64_t first, int64_t last) {
  const std::vector<double> left = LeavingTimes(program, timeline);
  PIPE_CHECK(0 <= first && first < last &&
             last < static_cast<int64_t>(left.size()));
  return Between(program, timeline, left[first], left[last], last - first);
}

std::vector<LinkLoad> LinkLoads(const Network& network,
                                const Timeline& timeline, double begin,
                                double end) {
  std::map<std::tuple<int, int, bool>, LinkLoad> loads;
  const double window = end - begin;
  for (const Timeline::Message& message : timeline.messages) {
    if (message.begin < begin || message.begin >= end) continue;
    const Route route = RouteOf(network, message.from, message.to);
    if (route.level < 0) continue;
    for (const bool up : {true, false}) {
      const int component = up ? route.from : route.to;
      LinkLoad& load = loads[{route.level, component, up}];
      load.level = route.level;
      load.component = component;
      load.up = up;
      load.bytes_per_second += message.bytes / window;
      load.busy += Occupies(message.bytes, route.link) / window;
      load.limit_bytes_per_second =
          network.levels[route.level].bytes_per_second;
    }
  }
  std::vector<LinkLoad> list;
  for (const auto& [key, load] : loads) list.push_back(load);
  std::stable_sort(
      list.begin(), list.end(), [](const LinkLoad& a, const LinkLoad& b) {
        return a.busy == b.busy ? a.bytes_per_second > b.bytes_per_second
                                : a.busy > b.busy;
      });
  return list;
}

}  // namespace pipework
