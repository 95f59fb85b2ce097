#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/exit_code.h"
#include "cli/json_printer.h"

namespace pipework {
namespace {

constexpr char kReasonUrl[] = "pipework.v1/reason";
constexpr char kProblemsUrl[] = "pipework.v1/problems";

// Columns that text takes on a terminal: one for each UTF-8 character.
int Columns(absl::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// The first `columns` characters of `text`.
std::string Cut(absl::string_view text, int columns) {
  size_t end = 0;
  int seen = 0;
  while (end < text.size()) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 &&
        seen++ == columns) {
      break;
    }
    ++end;
  }
  return std::string(text.substr(0, end));
}

// A flag, and the content of a file, are wrong whatever the status says.
int CodeOf(const absl::Status& status, absl::string_view reason) {
  if (reason == "USAGE") return kExitUsage;
  if (reason == "CHECKPOINT_CORRUPT") return kExitRejected;
  return ExitCodeOf(status);
}

std::string DefaultReason(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case absl::StatusCode::kNotFound:
      return "NOT_FOUND";
    case absl::StatusCode::kUnavailable:
      return "UNREACHABLE";
    case absl::StatusCode::kDeadlineExceeded:
      return "TIMEOUT";
    case absl::StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case absl::StatusCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case absl::StatusCode::kUnauthenticated:
      return "UNAUTHENTICATED";
    case absl::StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case absl::StatusCode::kDataLoss:
      return "DATA_LOSS";
    default:
      return "INTERNAL";
  }
}

}  // namespace

Table::Table(std::vector<std::string> headings)
    : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    right_.push_back(!heading.empty() && heading[0] == '>');
    if (right_.back()) heading.erase(0, 1);
  }
}

void Table::Row(std::vector<std::string> cells) {
  cells.resize(headings_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::ToString(int width) const {
  const size_t columns = headings_.size();
  std::vector<int> widths(columns);
  int total = 2 * (static_cast<int>(columns) - 1);
  for (size_t c = 0; c < columns; ++c) {
    widths[c] = Columns(headings_[c]);
    for (const auto& row : rows_) {
      widths[c] = std::max(widths[c], Columns(row[c]));
    }
    total += widths[c];
  }
  // Too wide: first the gaps, then the widest text column give way.
  int gap = 2;
  if (width > 0 && total > width) {
    gap = 1;
    total -= static_cast<int>(columns) - 1;
  }
  while (width > 0 && total > width) {
    int widest = -1;
    for (size_t c = 0; c < columns; ++c) {
      if (right_[c] || widths[c] <= std::max(6, Columns(headings_[c]))) {
        continue;
      }
      if (widest < 0 || widths[c] > widths[widest]) {
        widest = static_cast<int>(c);
      }
    }
    if (widest < 0) break;
    --widths[widest];
    --total;
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t c = 0; c < columns; ++c) {
      std::string cell = cells[c];
      if (Columns(cell) > widths[c]) {
        cell = widths[c] > 2 ? Cut(cell, widths[c] - 2) + ".."
                             : Cut(cell, widths[c]);
      }
      const std::string padding(
          static_cast<size_t>(std::max(0, widths[c] - Columns(cell))), ' ');
      if (c > 0) text.append(static_cast<size_t>(gap), ' ');
      text += right_[c] ? padding + cell : cell + padding;
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    absl::StrAppend(&out, text, "\n");
  };
  line(headings_);
  for (const auto& row : rows_) line(row);
  return out;
}

bool Output::OnTerminal() { return isatty(STDOUT_FILENO) != 0; }

int Output::Width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
    return size.ws_col;
  }
  return 80;
}

void Output::Text(absl::string_view text) const {
  if (format == OutputFormat::kJson) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
  std::fflush(stdout);
}

void Output::Note(absl::string_view text) const {
  if (quiet) return;
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stderr);
}

void Output::Json(const google::protobuf::Message& message,
                  absl::string_view kind) const {
  RawJson(ToJson(message, kind));
}

void Output::RawJson(absl::string_view json) const {
  if (format != OutputFormat::kJson) return;
  std::fwrite(json.data(), 1, json.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

int Output::Error(int code, absl::string_view reason, absl::string_view message,
                  absl::Span<const v1::Problem> problems) const {
  if (format == OutputFormat::kJson) {
    std::vector<std::string> items;
    for (const v1::Problem& problem : problems) {
      items.push_back(ToJson(problem, "", {.pretty = false}));
    }
    RawJson(absl::StrCat("{\n  \"kind\": \"Error\",\n  \"api_version\": ",
                         JsonString(kApiVersion), ",\n  \"code\": ", code,
                         ",\n  \"reason\": ", JsonString(reason),
                         ",\n  \"message\": ", JsonString(message),
                         ",\n  \"problems\": [", items.empty() ? "" : "\n    ",
                         absl::StrJoin(items, ",\n    "),
                         items.empty() ? "]\n}" : "\n  ]\n}"));
    return code;
  }
  std::fflush(stdout);
  std::string text = absl::StrCat(color ? "\033[31merror:\033[0m " : "error: ",
                                  SafeText(message));
  if (!problems.empty()) absl::StrAppend(&text, "  (", reason, ")");
  text += '\n';
  size_t where = 0;
  size_t field = 0;
  const auto place = [](const v1::Problem& p) {
    return SafeText(p.line() > 0 ? absl::StrCat(p.file(), ":", p.line())
                                 : p.file());
  };
  for (const v1::Problem& problem : problems) {
    where = std::max(where, place(problem).size());
    field = std::max(field, SafeText(problem.field()).size());
  }
  for (const v1::Problem& problem : problems) {
    absl::StrAppendFormat(&text, "  %-*s  %-*s  got %s, expected %s%s%s\n",
                          static_cast<int>(where), place(problem),
                          static_cast<int>(field), SafeText(problem.field()),
                          SafeText(problem.got()), SafeText(problem.expected()),
                          problem.hint().empty() ? "" : "; ",
                          SafeText(problem.hint()));
  }
  std::fwrite(text.data(), 1, text.size(), stderr);
  return code;
}

int Output::Error(const absl::Status& status) const {
  std::string reason = ReasonOf(status);
  if (reason.empty()) reason = DefaultReason(status);
  const std::vector<v1::Problem> problems = ProblemsOf(status);
  std::string message(status.message());
  // A server's one line repeats the first problem for whoever sees only that.
  const size_t end = message.find("; ");
  if (!problems.empty() && end != std::string::npos) message.resize(end);
  return Error(CodeOf(status, reason), reason, message, problems);
}

void SetReason(absl::string_view reason, absl::Status* status) {
  status->SetPayload(kReasonUrl, absl::Cord(reason));
}

absl::Status UsageError(absl::Status status) {
  if (!status.ok()) SetReason("USAGE", &status);
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonUrl);
  return payload.has_value() ? std::string(*payload) : "";
}

void SetProblems(absl::Span<const v1::Problem> problems, absl::Status* status) {
  std::string bytes;
  for (const v1::Problem& problem : problems) {
    const std::string one = problem.SerializeAsString();
    absl::StrAppend(&bytes, absl::Hex(one.size(), absl::kZeroPad8), one);
  }
  status->SetPayload(kProblemsUrl, absl::Cord(bytes));
}

std::vector<v1::Problem> ProblemsOf(const absl::Status& status) {
  std::vector<v1::Problem> problems;
  const auto payload = status.GetPayload(kProblemsUrl);
  if (!payload.has_value()) return problems;
  const std::string bytes(*payload);
  size_t at = 0;
  while (at + 8 <= bytes.size()) {
    const size_t size = std::strtoul(bytes.substr(at, 8).c_str(), nullptr, 16);
    v1::Problem problem;
    if (problem.ParseFromString(bytes.substr(at + 8, size))) {
      problems.push_back(problem);
    }
    at += 8 + size;
  }
  return problems;
}

std::string FormatBytes(double bytes) {
  if (bytes < 1024) return absl::StrFormat("%.0f B", bytes);
  const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  int unit = -1;
  while (bytes >= 1024 && unit < 3) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", bytes < 100 ? 1 : 0, bytes, units[unit]);
}

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 0.001) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  if (seconds < 120) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh%02dm", whole / 3600, whole / 60 % 60);
}

std::string FormatPercent(double share) {
  if (!std::isfinite(share)) return "-";
  const double percent = std::round(1000 * share) / 10;
  return absl::StrFormat("%.1f%%", percent == 0 ? 0.0 : percent);  // never -0.0
}

std::string SafeText(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next =
        static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    if (byte == '\t') {
      out += ' ';
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      // U+0080 to U+009F: terminals take some for the start of an escape.
      absl::StrAppendFormat(&out, "\\x%02x", next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace pipework
