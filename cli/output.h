// What a command prints, and where: tables and sentences for people, one JSON
// object for programs, errors in one form on both.
#ifndef PIPEWORK_CLI_OUTPUT_H_
#define PIPEWORK_CLI_OUTPUT_H_

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/message.h"
#include "proto/coordinator.pb.h"

namespace pipework {

enum class OutputFormat { kTable, kJson, kName };

// Columns of text; numbers to the right, the rest to the left, two spaces
// between.
class Table {
 public:
  // A heading that starts with '>' is set to the right.
  explicit Table(std::vector<std::string> headings);
  void Row(std::vector<std::string> cells);
  // Gaps shrink and cells are cut so that no line is longer than `width`; 0:
  // no limit.
  std::string ToString(int width = 0) const;

 private:
  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

class Output {
 public:
  OutputFormat format = OutputFormat::kTable;
  bool quiet = false;
  bool color = false;

  // Whether stdout is a terminal; and its width, 80 where it is none.
  static bool OnTerminal();
  static int Width();

  // To stdout in table mode; nothing in JSON mode.
  void Text(absl::string_view text) const;
  // To stderr, unless quiet.
  void Note(absl::string_view text) const;
  // The one object on stdout in JSON mode; nothing in table mode.
  void Json(const google::protobuf::Message& message,
            absl::string_view kind) const;
  void RawJson(absl::string_view json) const;

  // Prints the error (table: "error: ..." and its problems on stderr; JSON: an
  // Error object on stdout) and returns `code`.
  int Error(int code, absl::string_view reason, absl::string_view message,
            absl::Span<const v1::Problem> problems = {}) const;
  // The same for a status; reason and problems come from its payloads.
  int Error(const absl::Status& status) const;
};

// Payloads that carry an error's reason and problems in a status.
void SetReason(absl::string_view reason, absl::Status* status);
std::string ReasonOf(const absl::Status& status);
// `status` with reason USAGE: a flag is wrong, or a file that the command line
// names cannot be opened. Its exit code is 2.
absl::Status UsageError(absl::Status status);
void SetProblems(absl::Span<const v1::Problem> problems, absl::Status* status);
std::vector<v1::Problem> ProblemsOf(const absl::Status& status);

// 1.5 KiB, 3.2 MiB; 850 ms, 12.3 s, 2h11m.
std::string FormatBytes(double bytes);
std::string FormatSeconds(double seconds);
std::string FormatPercent(double share);  // 12.3%

// Text from elsewhere without control characters (terminal escapes).
std::string SafeText(absl::string_view text);

}  // namespace pipework

#endif  // PIPEWORK_CLI_OUTPUT_H_
