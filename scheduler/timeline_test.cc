#include "scheduler/timeline.h"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_split.h"
#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

struct Run {
  Lanes lanes;
  SteadyState steady;
};

// 1f1b with a forward of 1 ms and a backward of 2 ms on every stage.
Run RunOf(std::vector<int> replicas, int64_t minibatches,
          const std::vector<std::string>& devices = {}) {
  const Program program =
      MustCompile("1f1b", ChainOf(replicas), SegmentOf(minibatches));
  ActionTimes times;
  times.forward_seconds.assign(replicas.size(), 1e-3);
  times.backward_seconds.assign(replicas.size(), 2e-3);
  const auto timeline = Simulate(program, times);
  REQUIRE(timeline.ok());
  return {LanesOf(program, *timeline, devices),
          SteadyStateOf(program, *timeline)};
}

TEST_CASE("timeline: as text, a forward and a backward from their letter on") {
  const Run run = RunOf({1, 1}, 3);
  CHECK(TimelineText(run.lanes, AllOf(run.lanes), 4 + 48) ==
        "s0  F0>>F1>>........B0======F2>>B1======....B2======\n"
        "s1  ....F0>>B0======F1>>B1======F2>>B2======........\n"
        "    0                   5                   10    ms\n");
}

TEST_CASE("timeline: the text of the steady state has no dots on full rows") {
  const Run run = RunOf({1, 1, 1, 1}, 60);
  const TimeWindow window = LastSteps(run.steady, 4);
  CHECK(window.end - window.begin == Approx(4 * 3e-3));
  const std::string text = TimelineText(run.lanes, window);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  REQUIRE(lines.size() == 6);
  for (int lane = 0; lane < 4; ++lane) {
    CAPTURE(lines[lane]);
    CHECK(lines[lane].size() == 80);
    CHECK(lines[lane].find('.') == std::string::npos);
    CHECK(lines[lane].find('F') != std::string::npos);
    CHECK(lines[lane].find("==") != std::string::npos);
  }
}

TEST_CASE("timeline: a span without room for its number shows its letter") {
  Lanes lanes;
  lanes.lanes = {{"s0", ""}};
  lanes.spans = {{0, ActionKind::kForward, 1234, 0, 0, 2, -1},
                 {0, ActionKind::kBackward, 1234, 0, 2, 10, -1}};
  CHECK(TimelineText(lanes, {0, 10}, 4 + 10).substr(0, 14) == "s0  F>B1234===");
  lanes.spans.push_back({0, ActionKind::kWeightGradient, 7, 1, 10, 20, -1});
  CHECK(TimelineText(lanes, {10, 20}, 4 + 10).substr(0, 14) ==
        "s0  W7.1~~~~~~");
  CHECK(TimelineText(lanes, {5, 5}).empty());
}

// Count of `part` in `text`.
int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST_CASE("timeline: the picture has a box for each span of the window") {
  const Run run = RunOf({2, 1}, 6, {"n1 cpu:0", "n1 cpu:1", "<n2> & \"co\""});
  const std::string svg =
      TimelineSvg(run.lanes, AllOf(run.lanes), "six & more");
  CHECK(svg.substr(0, 5) == "<svg ");
  CHECK(svg.find("</svg>") != std::string::npos);
  CHECK(CountOf(svg, "<title>F") == 12);
  CHECK(CountOf(svg, "<title>B") == 12);
  CHECK(CountOf(svg, "<g>") == CountOf(svg, "</g>"));
  CHECK(svg.find("six &amp; more") != std::string::npos);
  CHECK(svg.find("&lt;n2&gt; &amp; &quot;co&quot;") != std::string::npos);
  CHECK(svg.find("n1 cpu:1") != std::string::npos);
  CHECK(svg.find(">s0.r1<") != std::string::npos);
  CHECK(svg.find(">ms<") != std::string::npos);
  CHECK(svg.find(">backward<") != std::string::npos);
  CHECK(svg.find(">weight gradient<") == std::string::npos);
  CHECK(svg.find("version 2") != std::string::npos);
}

TEST_CASE("timeline: boxes of a lane do not lie over each other") {
  const Run run = RunOf({1, 1, 1}, 20);
  std::map<size_t, double> end;
  for (const Lanes::Span& span : run.lanes.spans) {
    CHECK(span.begin >= end[span.lane]);
    end[span.lane] = span.end;
  }
}

TEST_CASE("timeline: the trace is JSON with a thread for each lane") {
  const Run run = RunOf({1, 1}, 8, {"n1 \"gpu\"\\0", "n2"});
  const TimeWindow window = LastSteps(run.steady, 2);
  const nlohmann::json trace =
      nlohmann::json::parse(TimelineTrace(run.lanes, window));
  std::map<int, std::string> names;
  std::set<std::string> spans;
  double busy = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") {
      names[event.at("tid")] = event.at("args").at("name");
    }
    if (event.at("ph") != "X") continue;
    spans.insert(event.at("name"));
    CHECK(event.at("args").at("version") >= 0);
    CHECK(event.at("args").contains("unit"));
    const double begin = event.at("ts");
    const double seconds = event.at("dur");
    CHECK(begin + seconds > 0);
    if (event.at("tid") == 1) busy += seconds;
  }
  CHECK(names ==
        std::map<int, std::string>{{1, "s0 n1 \"gpu\"\\0"}, {2, "s1 n2"}});
  CHECK(spans.count("F5") + spans.count("B5") > 0);
  // Stage 0 is never idle; a span may begin before the window.
  CHECK(busy >= 6000 - 1e-6);
}

}  // namespace
}  // namespace pipework
