// A picture of what rows did over time, predicted or measured: as text, as SVG
// and as a Chrome trace (opens in Perfetto).
//
// It takes plain lanes and spans, so a simulated run and a measured one are
// drawn alike. Pure.
#ifndef PIPEWORK_SCHEDULER_TIMELINE_H_
#define PIPEWORK_SCHEDULER_TIMELINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "scheduler/passes/simulate.h"
#include "scheduler/passes/steady_state.h"
#include "scheduler/program.h"

namespace pipework {

struct Lanes {
  struct Lane {
    std::string name;    // "s0.r1"
    std::string device;  // "n1 cpu:0", or empty
  };
  struct Span {
    size_t lane = 0;
    ActionKind kind = ActionKind::kForward;
    int64_t unit = 0;
    int chunk = 0;
    double begin = 0;  // seconds
    double end = 0;
    int64_t version = -1;  // of the weights; -1: unknown
  };
  std::vector<Lane> lanes;
  std::vector<Span> spans;  // in any order; of a lane, none over another
};

// `devices`: by row; empty: unnamed.
Lanes LanesOf(const Program& program, const Timeline& timeline,
              const std::vector<std::string>& devices = {});

// What is drawn: from `begin` to `end`.
struct TimeWindow {
  double begin = 0;
  double end = 0;
};

// The whole of it.
TimeWindow AllOf(const Lanes& lanes);

// The last `steps` steps of the steady state, or what it has.
TimeWindow LastSteps(const SteadyState& steady, int steps);

// A line for each lane, `columns` wide at most, then the time in ms. A span
// begins with its letter; forwards go on with >, backwards with =, weight
// gradients with ~; dots are idle. A span that is too narrow for its number
// shows the letter only, and one far below a column may not show.
//
//   s0  F3>>B0=====F4>>B1=====F5>>B2=====
//   s1  B0=====F3>>B1=====F4>>B2=====F5>>
//       0         10        20        30
std::string TimelineText(const Lanes& lanes, const TimeWindow& window,
                         int columns = 80);

// A picture of its own: boxes with the number of their unit, forwards blue,
// backwards green, weight gradients amber; lanes named by row and device; an
// axis in ms; the details of a box under the pointer. `title` may be empty.
std::string TimelineSvg(const Lanes& lanes, const TimeWindow& window,
                        absl::string_view title);

// {"traceEvents": [...]}: a thread for each lane, a complete event for each
// span that touches the window, named F3 or B3, with unit, chunk and version in
// its args. Microseconds from the window's begin.
std::string TimelineTrace(const Lanes& lanes, const TimeWindow& window);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_TIMELINE_H_
