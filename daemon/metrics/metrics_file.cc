#include "daemon/metrics/metrics_file.h"

#include <cerrno>
#include <charconv>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/paths.h"
#include "proto/errors.h"
#include "proto/metrics.pb.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr const char* kNames[] = {
    "step", "epoch", "loss", "learning_rate", "samples_per_second", "samples"};

// The shortest text that reads back as the same number.
std::string Number(double value, bool csv) {
  if (!std::isfinite(value)) return csv ? "" : "null";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

}  // namespace

std::string MetricsLine(const v1::StepMetrics& step, bool csv) {
  const std::string values[] = {absl::StrCat(step.step()),
                                absl::StrCat(step.epoch()),
                                Number(step.loss(), csv),
                                Number(step.learning_rate(), csv),
                                Number(step.samples_per_second(), csv),
                                absl::StrCat(step.samples())};
  std::string line;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    absl::StrAppend(&line, i == 0 ? "" : ",");
    if (!csv) absl::StrAppend(&line, "\"", kNames[i], "\":");
    absl::StrAppend(&line, values[i]);
  }
  return csv ? line : absl::StrCat("{", line, "}");
}

absl::StatusOr<MetricsFile> MetricsFile::Create(const std::string& path) {
  const bool csv = absl::EndsWith(path, ".csv");
  if (!csv && !absl::EndsWith(path, ".jsonl")) {
    return Mismatch("--metrics", "the file name",
                    absl::StrCat("\"", path, "\""), "NAME.jsonl or NAME.csv");
  }
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return ErrnoStatus("open", path, errno);
  MetricsFile metrics(path, file, csv);
  if (csv) {
    std::string head;
    for (const char* name : kNames) {
      absl::StrAppend(&head, head.empty() ? "" : ",", name);
    }
    head += '\n';
    if (std::fputs(head.c_str(), file) < 0) {
      return ErrnoStatus("write", path, errno);
    }
  }
  return metrics;
}

absl::Status MetricsFile::Write(const v1::StepMetrics& step) {
  const std::string line = absl::StrCat(MetricsLine(step, csv_), "\n");
  if (std::fputs(line.c_str(), file_.get()) < 0) {
    return ErrnoStatus("write", path_, errno);
  }
  return absl::OkStatus();
}

absl::Status MetricsFile::Flush() {
  if (std::fflush(file_.get()) != 0) return ErrnoStatus("write", path_, errno);
  return absl::OkStatus();
}

}  // namespace pipework
