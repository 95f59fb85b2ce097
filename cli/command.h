// What a command of pipectl is: a row of the table in main.cc. Flags are
// data, so that help, completion and parsing come from one place.
#ifndef PIPEWORK_CLI_COMMAND_H_
#define PIPEWORK_CLI_COMMAND_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "cli/output.h"

namespace pipework {

// One flag. `value` is the name of its value in help, empty for a switch.
struct Flag {
  absl::string_view name;  // "--steps" or "-f,--follow"
  absl::string_view value;
  absl::string_view help;
  bool repeated = false;
};

// What stands after the command: SPEC, JOB, ...
struct Positional {
  absl::string_view name;
  absl::string_view help;
  int min = 1;
  int max = 1;  // -1: any number
};

// The parsed command line of one call.
class Invocation {
 public:
  // Switches are "true". Long name without dashes: "steps".
  std::map<std::string, std::vector<std::string>> flags;
  std::vector<std::string> positionals;
  Output* out = nullptr;  // REQUIRES: outlives the call

  // Of the spec that LoadSpec read: its name as it was given, and the line of
  // each of its fields.
  std::string spec_file;
  std::map<std::string, int> spec_lines;

  bool Has(absl::string_view flag) const;
  // Last value, or `fallback`.
  std::string Get(absl::string_view flag,
                  absl::string_view fallback = "") const;
  std::vector<std::string> All(absl::string_view flag) const;
  // Whole numbers at least `min`; InvalidArgument names flag, got, expected.
  absl::Status GetInt(absl::string_view flag, int64_t min,
                      int64_t* value) const;
  // 90s, 15m, 2h, 300ms; a bare number is seconds.
  absl::Status GetSeconds(absl::string_view flag, double* seconds) const;
};

// Runs the command and returns its exit code; prints what it has to say.
using CommandFn = int (*)(Invocation& invocation);

struct Command {
  absl::string_view path;  // "local run"
  absl::string_view summary;
  std::vector<Flag> flags;
  std::vector<Positional> positionals;
  CommandFn run;
};

// The table, in the order of `pipectl --help`; defined in commands.cc.
const std::vector<Command>& Commands();
// Flags that every command takes, before or after its name.
const std::vector<Flag>& GlobalFlags();

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMAND_H_
