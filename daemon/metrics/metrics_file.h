// What `--metrics FILE` writes: one line for each step.
#ifndef PIPEWORK_DAEMON_METRICS_METRICS_FILE_H_
#define PIPEWORK_DAEMON_METRICS_METRICS_FILE_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace pipework {

namespace v1 {
class StepMetrics;
}  // namespace v1

// One thread at a time.
class MetricsFile {
 public:
  // `path` ends with .jsonl (an object a line) or .csv (a head line first),
  // else InvalidArgument. Replaces what is there.
  static absl::StatusOr<MetricsFile> Create(const std::string& path);

  // A loss that is no finite number is null in .jsonl and empty in .csv.
  absl::Status Write(const v1::StepMetrics& step);
  // Everything written so far is in the file when this returns.
  absl::Status Flush();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  MetricsFile(std::string path, std::FILE* file, bool csv)
      : path_(std::move(path)), csv_(csv), file_(file) {}

  std::string path_;
  bool csv_;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

// The line of a step without its end: {"step":0,"epoch":1,...} or 0,1,...
std::string MetricsLine(const v1::StepMetrics& step, bool csv);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_METRICS_METRICS_FILE_H_
