// The goldens are those of section 6.9 of the algorithms.
#include "scheduler/passes/simulate_ready.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "scheduler/passes/jitter.h"
#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

ReadyRun MustRun(const ReadyRule& rule, const ReadyTimes& times) {
  absl::StatusOr<ReadyRun> run = SimulateReady(rule, times);
  REQUIRE(run.ok());
  return *std::move(run);
}

ReadyRule Limited(std::vector<int> limits) {
  ReadyRule rule;
  rule.limits = std::move(limits);
  return rule;
}

TEST_CASE("readiness: with equal times BF takes as long as 1F1B") {
  for (const auto& [P, m, makespan] :
       std::vector<std::array<int, 3>>{{4, 8, 33}, {8, 32, 117}}) {
    const ReadyTimes times = ReadyTimes::Equal(P, m, 1, 2);
    CHECK(MustRun({}, times).timeline.makespan == makespan);
    for (const int limit : {P, P + 1, 2 * P, m}) {
      CHECK(MustRun(Limited(std::vector<int>(P, limit)), times)
                .timeline.makespan == makespan);
    }
    const Program program =
        MustCompile("flush", ChainOf(std::vector<int>(P, 1)), SegmentOf(1, m));
    ActionTimes equal;
    equal.forward_seconds.assign(P, 1);
    equal.backward_seconds.assign(P, 2);
    CHECK(Simulate(program, equal)->makespan == makespan);
  }
}

TEST_CASE("readiness: a limit below the number of stages costs time") {
  for (const auto& [P, m, limit, makespan] :
       std::vector<std::array<int, 4>>{{4, 8, 1, 96},
                                       {4, 8, 2, 51},
                                       {4, 8, 4, 33},
                                       {8, 32, 1, 768},
                                       {8, 32, 2, 387},
                                       {8, 32, 4, 201},
                                       {8, 32, 8, 117}}) {
    CAPTURE(P, m, limit);
    CHECK(MustRun(Limited(std::vector<int>(P, limit)),
                  ReadyTimes::Equal(P, m, 1, 2))
              .timeline.makespan == makespan);
  }
}

TEST_CASE("readiness: without a limit BF holds more than 1F1B") {
  const ReadyTimes times = ReadyTimes::Equal(8, 32, 1, 2);
  CHECK(MustRun({}, times).in_flight ==
        std::vector<int>{22, 19, 16, 13, 10, 7, 4, 1});
  // The distance from the end as a limit gives 1F1B's, in the same time.
  const ReadyRun same = MustRun(Limited({8, 7, 6, 5, 4, 3, 2, 1}), times);
  CHECK(same.in_flight == std::vector<int>{8, 7, 6, 5, 4, 3, 2, 1});
  CHECK(same.timeline.makespan == 117);
  CHECK(MustRun(Limited({4, 3, 2, 1}), ReadyTimes::Equal(4, 8, 1, 2))
            .timeline.makespan == 33);
  CHECK(MustRun(Limited(std::vector<int>(8, 8)), times).in_flight ==
        std::vector<int>{8, 8, 8, 8, 8, 7, 4, 1});
}

// Uniform in 0.2 to 1.2, then the last stage slower by `last`.
ReadyTimes RandomTimes(KeyedDraws* draws, int P, int m, double last) {
  ReadyTimes times = ReadyTimes::Equal(P, m, 0, 0);
  for (auto* seconds : {&times.forward_seconds, &times.backward_seconds,
                        &times.weight_gradient_seconds}) {
    for (int s = 0; s < P; ++s) {
      for (double& task : (*seconds)[s]) {
        task = (0.2 + draws->Next()) * (s + 1 == P ? last : 1);
      }
    }
  }
  return times;
}

// Makespan of all microbatches through the stages of `seconds`, in order.
double OneWay(const std::vector<std::vector<double>>& seconds) {
  std::vector<double> ready(seconds[0].size(), 0);
  for (const std::vector<double>& stage : seconds) {
    double free_at = 0;
    for (size_t j = 0; j < ready.size(); ++j) {
      free_at = std::max(free_at, ready[j]) + stage[j];
      ready[j] = free_at;
    }
  }
  return ready.back();
}

// Sum over microbatches `from` to `to` of the slowest stage's time less the
// last stage's.
double Excess(const std::vector<std::vector<double>>& seconds, size_t from,
              size_t to) {
  double sum = 0;
  for (size_t j = from; j < to; ++j) {
    double most = 0;
    for (const std::vector<double>& stage : seconds) {
      most = std::max(most, stage[j]);
    }
    sum += most - seconds.back()[j];
  }
  return sum;
}

TEST_CASE("readiness: theorem 6.1 and the lower bound on random times") {
  KeyedDraws draws(61);
  for (int instance = 0; instance < 400; ++instance) {
    const int P = 1 + static_cast<int>(draws.Next() * 6);
    const int m = 1 + static_cast<int>(draws.Next() * 16);
    const ReadyTimes times =
        RandomTimes(&draws, P, m, instance % 2 == 0 ? 1 : 1.5);
    std::vector<std::vector<double>> back = times.backward_seconds;
    std::reverse(back.begin(), back.end());
    const double upper = OneWay(times.forward_seconds) + OneWay(back) +
                         Excess(times.forward_seconds, 1, m) +
                         Excess(times.backward_seconds, 0, m - 1);
    double lower = 0;
    for (int j = 0; j < m; ++j) {
      lower +=
          times.forward_seconds[P - 1][j] + times.backward_seconds[P - 1][j];
    }
    for (const ReadyHint hint :
         {ReadyHint::kBackwardForward, ReadyHint::kBackwardPriority,
          ReadyHint::kForwardPriority}) {
      ReadyRule rule;
      rule.hint = hint;
      CAPTURE(instance, P, m, static_cast<int>(hint));
      const double makespan = MustRun(rule, times).timeline.makespan;
      CHECK(makespan <= upper * (1 + 1e-12));
      CHECK(makespan >= lower * (1 - 1e-12));
    }
  }
}

TEST_CASE(
    "readiness: each task runs once, after what it needs, within the limit") {
  KeyedDraws draws(62);
  for (int instance = 0; instance < 60; ++instance) {
    const int P = 1 + static_cast<int>(draws.Next() * 5);
    const int m = 1 + static_cast<int>(draws.Next() * 12);
    ReadyTimes times = RandomTimes(&draws, P, m, 1);
    times.transfer_seconds = 0.1 * (instance % 3);
    ReadyRule rule;
    rule.hint = static_cast<ReadyHint>(instance % 4);
    const int limit = 1 + instance % 5;
    rule.limits.assign(P, limit);
    CAPTURE(instance, P, m, limit);
    const ReadyRun run = MustRun(rule, times);
    std::map<std::tuple<ActionKind, size_t, int64_t>, Timeline::Span> tasks;
    for (const Timeline::Span& span : run.timeline.spans) {
      CHECK(tasks.emplace(std::make_tuple(span.kind, span.row, span.unit), span)
                .second);
    }
    const bool split = rule.hint == ReadyHint::kBackwardForwardWeight;
    REQUIRE(tasks.size() == static_cast<size_t>(P) * m * (split ? 3 : 2));
    const auto at = [&](ActionKind kind, int s, int j) {
      return tasks.at({kind, static_cast<size_t>(s), j});
    };
    for (int s = 0; s < P; ++s) {
      CHECK(run.in_flight[s] <= limit);
      if (s > 0) CHECK(run.in_flight[s] <= run.in_flight[s - 1]);
      for (int j = 0; j < m; ++j) {
        const Timeline::Span F = at(ActionKind::kForward, s, j);
        const Timeline::Span B = at(ActionKind::kBackward, s, j);
        CHECK(F.end <= B.begin);
        if (s + 1 < P) {
          CHECK(F.end + times.transfer_seconds <=
                at(ActionKind::kForward, s + 1, j).begin);
          CHECK(at(ActionKind::kBackward, s + 1, j).end +
                    times.transfer_seconds <=
                B.begin);
        }
        if (split) CHECK(B.end <= at(ActionKind::kWeightGradient, s, j).begin);
      }
    }
  }
}

TEST_CASE("readiness: W fills what BF leaves idle") {
  // The same work: B and W are a backward of 2.
  const double whole =
      MustRun({}, ReadyTimes::Equal(4, 8, 1, 2)).timeline.makespan;
  ReadyRule rule;
  rule.hint = ReadyHint::kBackwardForwardWeight;
  CHECK(MustRun(rule, ReadyTimes::Equal(4, 8, 1, 1, 1)).timeline.makespan <
        whole);
}

// What stage 0 runs, in order.
std::string OrderOfFirst(ReadyHint hint, const ReadyTimes& times) {
  ReadyRule rule;
  rule.hint = hint;
  std::string order;
  for (const Timeline::Span& span : MustRun(rule, times).timeline.spans) {
    if (span.row != 0) continue;
    order += span.kind == ActionKind::kForward    ? " F"
             : span.kind == ActionKind::kBackward ? " B"
                                                  : " W";
    order += std::to_string(span.unit);
  }
  return order;
}

TEST_CASE("readiness: the hints choose differently where they have a choice") {
  // While stage 0 is at its long F2, both gradients come back.
  ReadyTimes times = ReadyTimes::Equal(2, 4, 1, 1, 1);
  times.forward_seconds[0][2] = 10;
  CHECK(OrderOfFirst(ReadyHint::kBackwardForward, times) ==
        " F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(OrderOfFirst(ReadyHint::kBackwardPriority, times) ==
        " F0 F1 F2 B0 B1 B2 F3 B3");
  CHECK(OrderOfFirst(ReadyHint::kForwardPriority, times) ==
        " F0 F1 F2 F3 B0 B1 B2 B3");
  CHECK(OrderOfFirst(ReadyHint::kBackwardForwardWeight, times) ==
        " F0 F1 F2 B0 F3 B1 B2 B3 W0 W1 W2 W3");
}

TEST_CASE("readiness: F-priority runs every forward first") {
  ReadyRule rule;
  rule.hint = ReadyHint::kForwardPriority;
  const ReadyRun run = MustRun(rule, ReadyTimes::Equal(4, 8, 1, 2));
  CHECK(run.in_flight[0] == 8);
  CHECK(run.timeline.makespan == 33);
}

TEST_CASE("readiness: what cannot be is refused") {
  const ReadyTimes times = ReadyTimes::Equal(2, 3, 1, 2);
  CHECK_FALSE(SimulateReady({}, {}).ok());
  CHECK_FALSE(SimulateReady(Limited({1}), times).ok());
  CHECK_FALSE(SimulateReady(Limited({1, 0}), times).ok());
  ReadyTimes bad = times;
  bad.backward_seconds[1].pop_back();
  CHECK_FALSE(SimulateReady({}, bad).ok());
  bad = times;
  bad.forward_seconds[0][0] = -1;
  CHECK_FALSE(SimulateReady({}, bad).ok());
}

}  // namespace
}  // namespace pipework
