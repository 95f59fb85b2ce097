#include "scheduler/grid.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/status_macros.h"
#include "scheduler/passes/row_peaks.h"
#include "scheduler/passes/simulate.h"

namespace pipework {
namespace {

constexpr int kColumns = 80;

// A run on a clock in which a chunk's forward takes one slot.
struct UnitRun {
  Timeline timeline;
  int slots_per_forward = 1;  // of a whole stage: its chunks
};

absl::StatusOr<UnitRun> RunInSlots(const Program& program) {
  UnitRun run;
  bool split = false;
  for (const Row& row : program.rows) {
    for (const Action& action : row.actions) {
      run.slots_per_forward = std::max(run.slots_per_forward, action.chunk + 1);
      split |= action.kind == ActionKind::kWeightGradient;
    }
  }
  const int stages = program.shape.stages();
  const double forward = run.slots_per_forward;
  ActionTimes times;
  times.forward_seconds.assign(stages, forward);
  times.backward_seconds.assign(stages, split ? forward : 2 * forward);
  times.weight_gradient_seconds.assign(stages, forward);
  ASSIGN_OR_RETURN(run.timeline, Simulate(program, times));
  return run;
}

std::string Number(const Timeline::Span& span) {
  return span.chunk == 0 ? absl::StrCat(span.unit)
                         : absl::StrCat(span.unit, ".", span.chunk);
}

std::string Label(const Timeline::Span& span) {
  const char letter = span.kind == ActionKind::kForward          ? 'F'
                      : span.kind == ActionKind::kBackward       ? 'B'
                      : span.kind == ActionKind::kWeightGradient ? 'W'
                                                                 : 'E';
  return absl::StrCat(std::string(1, letter), Number(span));
}

absl::string_view ColorOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kBackward:
      return "#8fce9f";
    case ActionKind::kWeightGradient:
      return "#f2cf87";
    default:
      return "#9db8ea";
  }
}

int64_t Slots(double time) { return std::llround(time); }

std::vector<std::string> Names(const Program& program) {
  std::vector<std::string> names;
  size_t width = 0;
  for (const Row& row : program.rows) {
    names.push_back(RowName(program.shape, row.stage, row.replica));
    width = std::max(width, names.back().size());
  }
  for (std::string& name : names) name.resize(width, ' ');
  return names;
}

}  // namespace

absl::StatusOr<std::string> TextGrid(const Program& program) {
  ASSIGN_OR_RETURN(const UnitRun run, RunInSlots(program));
  const Timeline& timeline = run.timeline;
  const std::vector<std::string> names = Names(program);
  int64_t slots = 0;
  size_t width = 3;  // of a slot: the longest label and a space
  for (const Timeline::Span& span : timeline.spans) {
    slots = std::max(slots, Slots(span.end));
    width = std::max(width, Label(span).size() + 1);
  }
  std::vector<std::string> lines(
      program.rows.size(),
      std::string(static_cast<size_t>(slots) * width, ' '));
  for (std::string& line : lines) {
    for (int64_t slot = 0; slot < slots; ++slot) line[slot * width] = '.';
  }
  for (const Timeline::Span& span : timeline.spans) {
    const size_t begin = Slots(span.begin) * width;
    const size_t end = Slots(span.end) * width;
    if (end == begin) continue;
    std::string label = Label(span);
    label.resize(end - begin - 1, '-');
    if (span.kind != ActionKind::kBackward) {
      std::replace(label.begin(), label.end(), '-', ' ');
    }
    lines[span.row].replace(begin, end - begin, label + " ");
  }

  const size_t name_width = names.empty() ? 0 : names[0].size();
  const int64_t per_block =
      std::max<int64_t>(1, (kColumns - static_cast<int64_t>(name_width) - 2) /
                               static_cast<int64_t>(width));
  std::string text;
  for (int64_t from = 0; from < slots; from += per_block) {
    const int64_t to = std::min(slots, from + per_block);
    if (slots > per_block) {
      absl::StrAppend(&text, from == 0 ? "" : "\n", "time ", from, " to ", to,
                      "\n");
    }
    for (size_t row = 0; row < lines.size(); ++row) {
      std::string line =
          absl::StrCat(names[row], "  ",
                       lines[row].substr(from * width, (to - from) * width));
      line.erase(line.find_last_not_of(' ') + 1);
      absl::StrAppend(&text, line, "\n");
    }
  }
  return text;
}

absl::StatusOr<std::string> SvgGrid(const Program& program) {
  constexpr int kSlot = 28;
  constexpr int kRow = 26;
  constexpr int kLeft = 60;
  ASSIGN_OR_RETURN(const UnitRun run, RunInSlots(program));
  const Timeline& timeline = run.timeline;
  const std::vector<std::string> names = Names(program);
  double end = 0;
  for (const Timeline::Span& span : timeline.spans) {
    end = std::max(end, span.end);
  }
  const int width = kLeft + static_cast<int>(std::ceil(end)) * kSlot + 10;
  const int height = static_cast<int>(names.size()) * kRow + 10;
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      width, height);
  for (size_t row = 0; row < names.size(); ++row) {
    const int y = 5 + static_cast<int>(row) * kRow;
    absl::StrAppendFormat(&svg, "<text x=\"8\" y=\"%d\">%s</text>\n", y + 17,
                          names[row]);
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%d\" y=\"%d\" width=\"%.0f\" "
                          "height=\"%d\" fill=\"#eeeeee\"/>\n",
                          kLeft, y, end * kSlot, kRow - 4);
  }
  for (const Timeline::Span& span : timeline.spans) {
    const int y = 5 + static_cast<int>(span.row) * kRow;
    const double x = kLeft + span.begin * kSlot;
    const double span_width = (span.end - span.begin) * kSlot;
    absl::StrAppendFormat(
        &svg,
        "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\" "
        "stroke=\"white\"/>\n"
        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
        x, y, span_width, kRow - 4, ColorOf(span.kind), x + span_width / 2,
        y + 16, Number(span));
  }
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

absl::StatusOr<v1::Schedule> ToSchedule(const Program& program) {
  ASSIGN_OR_RETURN(const UnitRun run, RunInSlots(program));
  const Timeline& timeline = run.timeline;
  v1::Schedule schedule;
  schedule.set_schedule(program.schedule);
  schedule.set_weights(program.weights);
  schedule.set_unit(program.unit_is_microbatch ? "microbatch" : "minibatch");
  schedule.set_makespan(timeline.makespan / run.slots_per_forward);
  schedule.set_bubble(timeline.bubble());
  std::vector<RowPeaks> stages(program.shape.stages());
  for (const Row& row : program.rows) {
    v1::ProgramRow* out = schedule.add_programs();
    out->set_stage(row.stage.value());
    out->set_replica(row.replica.value());
    for (const Action& action : row.actions) {
      out->add_actions(ToString(action, row.stage));
    }
    const RowPeaks peaks = PeaksOf(program, row);
    RowPeaks& stage = stages[row.stage.value()];
    stage.in_flight = std::max(stage.in_flight, peaks.in_flight);
    stage.versions = std::max(stage.versions, peaks.versions);
    stage.staleness = std::max(stage.staleness, peaks.staleness);
  }
  for (const RowPeaks& stage : stages) {
    schedule.add_in_flight(stage.in_flight);
    schedule.add_versions(stage.versions);
    schedule.add_staleness(stage.staleness);
  }
  return schedule;
}

}  // namespace pipework
