// Zero bubble and interleaving: the published bubbles and peaks.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "scheduler/passes/simulate.h"
#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

struct Run {
  std::vector<double> idle;  // by stage: span from first to last, minus work
  double span = 0;           // of stage 0
  double makespan = 0;
};

Run RunOf(const char* schedule, int p, int m, std::array<double, 3> seconds) {
  ActionTimes times;
  times.forward_seconds.assign(p, seconds[0]);
  times.backward_seconds.assign(p, seconds[1]);
  times.weight_gradient_seconds.assign(p, seconds[2]);
  const auto timeline = Simulate(
      MustCompile(schedule, ChainOf(std::vector<int>(p, 1)), SegmentOf(1, m)),
      times);
  REQUIRE(timeline.ok());
  Run run;
  run.makespan = timeline->makespan;
  for (int s = 0; s < p; ++s) {
    double begin = 1e9;
    double end = 0;
    for (const Timeline::Span& span : timeline->spans) {
      if (span.row != static_cast<size_t>(s)) continue;
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
    if (s == 0) run.span = end - begin;
    run.idle.push_back(end - begin - timeline->busy_seconds[s]);
  }
  return run;
}

double Worst(const Run& run) {
  return *std::max_element(run.idle.begin(), run.idle.end());
}

// The bubble of H1 is (p - 1)(T_F + T_B - T_W), that of H2
// (p - 1)(T_F + T_B - 2 T_W).
TEST_CASE("zero bubble: the published bubbles") {
  const std::array<double, 3> unit = {1, 1, 1};
  const std::array<double, 3> uneven = {4, 5, 3};
  using List = std::vector<double>;
  CHECK(RunOf("zb_h1", 4, 8, unit).idle == List{3, 2, 1, 0});
  CHECK(RunOf("zb_h1", 4, 8, unit).makespan == 27);
  CHECK(RunOf("zb_h1", 4, 12, unit).makespan == 39);
  CHECK(RunOf("zb_h1", 8, 24, unit).makespan == 79);
  CHECK(Worst(RunOf("zb_h1", 4, 8, uneven)) == 18);
  CHECK(RunOf("zb_h2", 4, 8, unit).idle == List{0, 0, 0, 0});
  CHECK(RunOf("zb_h2", 4, 8, unit).span == 24);
  CHECK(RunOf("zb_h2", 4, 8, unit).makespan == 27);
  CHECK(RunOf("zb_h2", 4, 8, uneven).idle == List{9, 6, 3, 0});
  for (const int p : {4, 8}) {
    for (const int m : {8, 12, 24}) {
      for (const std::array<double, 3>& t :
           {unit, std::array<double, 3>{2, 2, 2}, uneven}) {
        CAPTURE(p, m, t[0]);
        CHECK(Worst(RunOf("zb_h1", p, m, t)) == (p - 1) * (t[0] + t[1] - t[2]));
        if (m < 2 * p - 1) continue;
        CHECK(Worst(RunOf("zb_h2", p, m, t)) ==
              (p - 1) * (t[0] + t[1] - 2 * t[2]));
      }
    }
  }
}

// Units between F and B, and between B and W, the W about to run included.
TEST_CASE("zero bubble: the published peaks") {
  const auto peaks = [](const char* schedule) {
    std::vector<std::pair<int, int>> peaks;
    for (const Row& row :
         MustCompile(schedule, ChainOf({1, 1, 1, 1}), SegmentOf(1, 12)).rows) {
      int forward = 0;
      int pending = 0;
      std::pair<int, int> most = {0, 0};
      for (const Action& action : row.actions) {
        if (action.kind == ActionKind::kForward) ++forward;
        if (action.kind == ActionKind::kBackward) --forward, ++pending;
        if (action.kind == ActionKind::kWeightGradient) --pending;
        most.first = std::max(most.first, forward);
        most.second = std::max(most.second, pending);
      }
      peaks.push_back(most);
    }
    return peaks;
  };
  using List = std::vector<std::pair<int, int>>;
  CHECK(peaks("zb_h1") == List{{4, 1}, {3, 2}, {2, 3}, {1, 4}});
  CHECK(peaks("zb_h2") == List{{7, 1}, {5, 3}, {3, 5}, {1, 7}});
}

// The makespan of 1F1B with its bubble divided by v.
TEST_CASE("interleaved: the published makespans") {
  for (const auto& [p, v, m, makespan] :
       std::vector<std::tuple<int, int, int, double>>{{4, 1, 8, 33},
                                                      {4, 2, 4, 16.5},
                                                      {4, 2, 8, 28.5},
                                                      {4, 2, 16, 52.5},
                                                      {4, 4, 16, 50.25},
                                                      {8, 2, 16, 58.5},
                                                      {8, 4, 32, 101.25}}) {
    PipelineShape shape = ChainOf(std::vector<int>(p, 1));
    shape.chunks = v;
    ActionTimes times;
    times.forward_seconds.assign(p, 1);
    times.backward_seconds.assign(p, 2);
    const auto timeline =
        Simulate(MustCompile("interleaved", shape, SegmentOf(1, m)), times);
    REQUIRE(timeline.ok());
    CAPTURE(p, v, m);
    CHECK(timeline->makespan == Approx(makespan));
    CHECK(timeline->bubble() ==
          Approx((p - 1.0) / (v * m) / (1 + (p - 1.0) / (v * m))));
  }
}

}  // namespace
}  // namespace pipework
