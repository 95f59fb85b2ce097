#include "scheduler/timeline.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pipework {
namespace {

// How a kind of span looks.
struct Look {
  ActionKind kind;
  char letter;
  char fill;
  absl::string_view name;
  absl::string_view color;   // SVG
  absl::string_view border;  // SVG
};

constexpr Look kLooks[] = {
    {ActionKind::kForward, 'F', '>', "forward", "#a9c4f5", "#4a74c9"},
    {ActionKind::kBackward, 'B', '=', "backward", "#a5dcb2", "#3f9a57"},
    {ActionKind::kWeightGradient, 'W', '~', "weight gradient", "#f7d794",
     "#c9962f"},
    {ActionKind::kEvaluate, 'E', '>', "evaluation", "#d3c4f2", "#7d60c4"},
    {ActionKind::kUpdate, 'U', '+', "update", "#dddddd", "#888888"},
    {ActionKind::kAllReduce, 'A', '-', "all-reduce", "#f2b8b5", "#c05a54"},
};

const Look& LookOf(ActionKind kind) {
  for (const Look& look : kLooks) {
    if (look.kind == kind) return look;
  }
  return kLooks[4];
}

std::string Number(const Lanes::Span& span) {
  return span.chunk == 0 ? absl::StrCat(span.unit)
                         : absl::StrCat(span.unit, ".", span.chunk);
}

std::string Label(const Lanes::Span& span) {
  return absl::StrCat(std::string(1, LookOf(span.kind).letter), Number(span));
}

std::string XmlEscaped(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

std::string JsonQuoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// The part of the span inside the window; false: none.
bool Clip(const Lanes::Span& span, const TimeWindow& window, double* begin,
          double* end) {
  *begin = std::max(span.begin, window.begin);
  *end = std::min(span.end, window.end);
  return *end > *begin;
}

// A distance of 1, 2 or 5 times a power of ten, at least `least`.
double RoundDistance(double least) {
  double distance = 1e-12;
  for (int digit = 0; distance < least; digit = (digit + 1) % 3) {
    distance *= digit == 1 ? 2.5 : 2;
  }
  return distance;
}

// 12, 0.5, 1.25: no more digits than neighbours need to differ.
std::string TickText(double value, double distance) {
  int digits = 0;
  for (double d = distance; d < 0.999 && digits < 9; d *= 10) ++digits;
  return absl::StrFormat("%.*f", digits, value);
}

}  // namespace

Lanes LanesOf(const Program& program, const Timeline& timeline,
              const std::vector<std::string>& devices) {
  Lanes lanes;
  for (size_t row = 0; row < program.rows.size(); ++row) {
    lanes.lanes.push_back({RowName(program.shape, program.rows[row].stage,
                                   program.rows[row].replica),
                           row < devices.size() ? devices[row] : ""});
  }
  for (const Timeline::Span& span : timeline.spans) {
    lanes.spans.push_back({span.row, span.kind, span.unit, span.chunk,
                           span.begin, span.end, span.version.value()});
  }
  return lanes;
}

TimeWindow AllOf(const Lanes& lanes) {
  if (lanes.spans.empty()) return {};
  TimeWindow window{lanes.spans[0].begin, lanes.spans[0].end};
  for (const Lanes::Span& span : lanes.spans) {
    window.begin = std::min(window.begin, span.begin);
    window.end = std::max(window.end, span.end);
  }
  return window;
}

TimeWindow LastSteps(const SteadyState& steady, int steps) {
  return {std::max(steady.begin, steady.end - steps * steady.step_seconds),
          steady.end};
}

std::string TimelineText(const Lanes& lanes, const TimeWindow& window,
                         int columns) {
  const double seconds = window.end - window.begin;
  if (!(seconds > 0) || lanes.lanes.empty()) return "";
  size_t name_width = 0;
  for (const Lanes::Lane& lane : lanes.lanes) {
    name_width = std::max(name_width, lane.name.size());
  }
  const int left = static_cast<int>(name_width) + 2;
  const int width = std::max(10, columns - left);
  const double per_column = seconds / width;
  std::vector<std::string> lines(lanes.lanes.size(), std::string(width, '.'));
  for (const Lanes::Span& span : lanes.spans) {
    double begin = 0;
    double end = 0;
    if (!Clip(span, window, &begin, &end)) continue;
    // The columns whose middle it covers.
    const auto column = [&](double time) {
      return static_cast<int>(
          std::ceil((time - window.begin) / per_column - 0.5 - 1e-9));
    };
    const int first = column(begin);
    const int cells = std::min(width, column(end)) - first;
    if (cells <= 0) continue;
    const Look& look = LookOf(span.kind);
    std::string label = Label(span);
    if (static_cast<int>(label.size()) > cells) label.resize(1);
    label.resize(cells, look.fill);
    lines[span.lane].replace(first, cells, label);
  }

  std::string text;
  for (size_t lane = 0; lane < lines.size(); ++lane) {
    std::string name = lanes.lanes[lane].name;
    name.resize(name_width, ' ');
    absl::StrAppend(&text, name, "  ", lines[lane], "\n");
  }
  // Ticks where their text fits; times count from the window's begin.
  const double distance_ms = RoundDistance(per_column * 1e3 * 10);
  std::string axis(left + width, ' ');
  for (int tick = 0;; ++tick) {
    const double at_ms = tick * distance_ms;
    const int at =
        left + static_cast<int>(std::llround(at_ms / 1e3 / per_column));
    const std::string number = TickText(at_ms, distance_ms);
    if (at + static_cast<int>(number.size()) + 3 > left + width) break;
    axis.replace(at, number.size(), number);
  }
  axis.replace(left + width - 2, 2, "ms");
  absl::StrAppend(&text, axis, "\n");
  return text;
}

std::string TimelineSvg(const Lanes& lanes, const TimeWindow& window,
                        absl::string_view title) {
  constexpr int kLane = 34;    // height of a lane
  constexpr int kBox = 26;     // of a box
  constexpr int kDrawn = 960;  // width of the drawn time
  constexpr int kTitle = 40;
  constexpr double kLetterWidth = 7;
  const double seconds = window.end - window.begin;
  size_t letters = 4;
  for (const Lanes::Lane& lane : lanes.lanes) {
    letters = std::max({letters, lane.name.size(), lane.device.size()});
  }
  const int left = 24 + static_cast<int>(letters * kLetterWidth);
  const int top = title.empty() ? 16 : kTitle;
  const int bottom = top + static_cast<int>(lanes.lanes.size()) * kLane;
  const int width = left + kDrawn + 24;
  const int height = bottom + 70;
  const auto x_of = [&](double time) {
    return left + (seconds > 0 ? (time - window.begin) / seconds : 0) * kDrawn;
  };

  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, sans-serif\" "
      "font-size=\"12\">\n"
      "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
      width, height, width, height, width, height);
  if (!title.empty()) {
    absl::StrAppendFormat(&svg,
                          "<text x=\"%d\" y=\"25\" font-size=\"16\" "
                          "font-weight=\"bold\" fill=\"#222222\">%s</text>\n",
                          left, XmlEscaped(title));
  }

  // Lanes and their names.
  for (size_t lane = 0; lane < lanes.lanes.size(); ++lane) {
    const int y = top + static_cast<int>(lane) * kLane;
    const std::string& device = lanes.lanes[lane].device;
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                          "fill=\"#f1f1f1\"/>\n",
                          left, y + (kLane - kBox) / 2, kDrawn, kBox);
    absl::StrAppendFormat(
        &svg,
        "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" font-weight=\"bold\" "
        "fill=\"#222222\">%s</text>\n",
        left - 10, y + (device.empty() ? 21 : 15),
        XmlEscaped(lanes.lanes[lane].name));
    if (device.empty()) continue;
    absl::StrAppendFormat(&svg,
                          "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" "
                          "font-size=\"10\" fill=\"#777777\">%s</text>\n",
                          left - 10, y + 28, XmlEscaped(device));
  }

  // The axis, its lines behind the boxes.
  if (seconds > 0) {
    const double distance_ms = RoundDistance(seconds * 1e3 / 12);
    for (int tick = 0; tick * distance_ms <= seconds * 1e3 * (1 + 1e-9);
         ++tick) {
      const double at_ms = tick * distance_ms;
      const double x = x_of(window.begin + at_ms / 1e3);
      absl::StrAppendFormat(
          &svg,
          "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%d\" "
          "stroke=\"#d8d8d8\"/>\n"
          "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\" font-size=\"11\" "
          "fill=\"#555555\">%s</text>\n",
          x, top, x, bottom + 4, x, bottom + 18, TickText(at_ms, distance_ms));
    }
    absl::StrAppendFormat(&svg,
                          "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" "
                          "font-size=\"11\" fill=\"#555555\">ms</text>\n",
                          left - 10, bottom + 18);
  }

  bool seen[std::size(kLooks)] = {};
  for (const Lanes::Span& span : lanes.spans) {
    double begin = 0;
    double end = 0;
    if (!Clip(span, window, &begin, &end)) continue;
    const Look& look = LookOf(span.kind);
    seen[&look - kLooks] = true;
    const double x = x_of(begin);
    const double box = x_of(end) - x;
    const int y =
        top + static_cast<int>(span.lane) * kLane + (kLane - kBox) / 2;
    const std::string version =
        span.version < 0 ? "" : absl::StrCat(", version ", span.version);
    absl::StrAppendFormat(
        &svg,
        "<g><title>%s%s, %.3f to %.3f ms</title>"
        "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" "
        "fill=\"%s\" stroke=\"%s\" stroke-width=\"0.8\"/>",
        Label(span), version, (span.begin - window.begin) * 1e3,
        (span.end - window.begin) * 1e3, x, y, box, kBox, look.color,
        look.border);
    const std::string number = Number(span);
    if (box >= kLetterWidth * static_cast<double>(number.size()) + 2) {
      absl::StrAppendFormat(&svg,
                            "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\" "
                            "fill=\"#1b1b1b\">%s</text>",
                            x + box / 2, y + 17, number);
    }
    absl::StrAppend(&svg, "</g>\n");
  }

  // What the colours mean.
  int x = left;
  for (size_t i = 0; i < std::size(kLooks); ++i) {
    if (!seen[i]) continue;
    absl::StrAppendFormat(
        &svg,
        "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"14\" fill=\"%s\" "
        "stroke=\"%s\" stroke-width=\"0.8\"/>\n"
        "<text x=\"%d\" y=\"%d\" fill=\"#333333\">%s</text>\n",
        x, bottom + 36, kLooks[i].color, kLooks[i].border, x + 20, bottom + 48,
        kLooks[i].name);
    x += 44 + static_cast<int>(kLooks[i].name.size() * kLetterWidth);
  }
  absl::StrAppendFormat(
      &svg,
      "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"14\" fill=\"#f1f1f1\" "
      "stroke=\"#cccccc\" stroke-width=\"0.8\"/>\n"
      "<text x=\"%d\" y=\"%d\" fill=\"#333333\">idle</text>\n</svg>\n",
      x, bottom + 36, x + 20, bottom + 48);
  return svg;
}

std::string TimelineTrace(const Lanes& lanes, const TimeWindow& window) {
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  absl::StrAppend(&json,
                  "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,"
                  "\"args\":{\"name\":\"pipeline\"}}");
  for (size_t lane = 0; lane < lanes.lanes.size(); ++lane) {
    const std::string& device = lanes.lanes[lane].device;
    const std::string name =
        absl::StrCat(lanes.lanes[lane].name, device.empty() ? "" : " ", device);
    absl::StrAppendFormat(
        &json,
        ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,"
        "\"args\":{\"name\":%s}}"
        ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,"
        "\"args\":{\"sort_index\":%d}}",
        lane + 1, JsonQuoted(name), lane + 1, lane);
  }
  for (const Lanes::Span& span : lanes.spans) {
    double begin = 0;
    double end = 0;
    if (!Clip(span, window, &begin, &end)) continue;
    absl::StrAppendFormat(
        &json,
        ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":0,"
        "\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"unit\":%d,"
        "\"chunk\":%d,\"version\":%d}}",
        Label(span), LookOf(span.kind).name, span.lane + 1,
        (span.begin - window.begin) * 1e6, (span.end - span.begin) * 1e6,
        span.unit, span.chunk, span.version);
  }
  absl::StrAppend(&json, "\n]}\n");
  return json;
}

}  // namespace pipework
