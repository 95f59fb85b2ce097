// pipectl: the command line of Pipework. The table of commands is in
// commands.cc; this file turns it into a parser and calls the chosen row.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/output.h"

namespace pipework {
namespace {

// "-f,--follow" -> "follow".
std::string LongName(absl::string_view flag) {
  const std::vector<absl::string_view> names = absl::StrSplit(flag, ',');
  absl::string_view name = names.back();
  while (absl::ConsumePrefix(&name, "-")) {
  }
  return std::string(name);
}

// What CLI11 writes into.
struct Slots {
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, bool> switches;
  std::vector<std::vector<std::string>> positionals;
};

void AddFlag(CLI::App* app, const Flag& flag, Slots* slots) {
  const std::string name = LongName(flag.name);
  if (flag.value.empty()) {
    app->add_flag(std::string(flag.name), slots->switches[name],
                  std::string(flag.help));
    return;
  }
  CLI::Option* option = app->add_option(
      std::string(flag.name), slots->values[name], std::string(flag.help));
  option->type_name(std::string(flag.value))->expected(1);
  // `--set a=1 SPEC`: what follows the value is not one more.
  option->allow_extra_args(false);
  // A repeated flag gathers its values; of the others the last one counts.
  option->multi_option_policy(flag.repeated ? CLI::MultiOptionPolicy::TakeAll
                                            : CLI::MultiOptionPolicy::TakeLast);
}

bool WantColor(const std::string& when) {
  if (when == "always") return true;
  if (when == "never") return false;
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && value[0] != '\0';
  };
  if (set("NO_COLOR")) return false;
  if (set("CLICOLOR_FORCE")) return true;
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && term != nullptr &&
         absl::string_view(term) != "dumb";
}

// Whether a command or a group of commands starts with this word.
bool IsCommand(absl::string_view word) {
  for (const Command& command : Commands()) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(command.path, ' ');
    if (words[0] == word) return true;
  }
  return false;
}

// Where a caller closed one of the first three descriptors, a file opened
// later would take its number, and what is printed would go into that file.
void OpenStandardDescriptors() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) close(fd);
}

// `code`, unless what was printed is not all there, such as on a full disk:
// then a success is none. A verdict stays what it is.
int AfterPrinting(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  // An earlier write may have failed, and errno is gone: ask once more.
  std::clearerr(stdout);
  std::fputc('\n', stdout);
  const bool still = std::fflush(stdout) != 0;
  const std::string text =
      absl::StrCat("error: standard output: cannot be written",
                   still ? absl::StrCat(": ", std::strerror(errno)) : "", "\n");
  std::fwrite(text.data(), 1, text.size(), stderr);
  return code == kExitOk ? kExitUnexpected : code;
}

int Main(int argc, char** argv) {
  OpenStandardDescriptors();
  signal(SIGPIPE, SIG_DFL);  // `pipectl ... | head` ends quietly
  CLI::App app{
      "pipectl trains neural networks in pipelines across devices.\n"
      "First: pipectl local run testdata/jobs/digits.yaml",
      "pipectl"};
  app.require_subcommand(1);
  app.fallthrough();  // global flags may stand after the command
  bool version = false;
  app.add_flag("--version", version, "version of pipectl");

  Slots global;
  for (const Flag& flag : GlobalFlags()) AddFlag(&app, flag, &global);

  std::map<std::string, CLI::App*> groups;
  std::vector<std::pair<CLI::App*, std::unique_ptr<Slots>>> rows;
  for (const Command& command : Commands()) {
    const std::vector<std::string> words = absl::StrSplit(command.path, ' ');
    CLI::App* parent = &app;
    if (words.size() == 2) {
      CLI::App*& group = groups[words[0]];
      if (group == nullptr) {
        group = app.add_subcommand(words[0], words[0] + " ...");
        group->require_subcommand(1);
        group->fallthrough();
      }
      parent = group;
      const std::string had = group->get_description();
      group->description(had == words[0] + " ..." ? words[1]
                                                  : had + ", " + words[1]);
    }
    CLI::App* row =
        parent->add_subcommand(words.back(), std::string(command.summary));
    row->fallthrough();
    auto slots = std::make_unique<Slots>();
    slots->positionals.resize(command.positionals.size());
    for (size_t i = 0; i < command.positionals.size(); ++i) {
      const Positional& positional = command.positionals[i];
      CLI::Option* option =
          row->add_option(std::string(positional.name), slots->positionals[i],
                          std::string(positional.help));
      option->type_name("")->expected(
          positional.min > 0 ? 1 : 0,
          positional.max < 0 ? 1 << 20 : positional.max);
      if (positional.min > 0) option->required();
    }
    for (const Flag& flag : command.flags) AddFlag(row, flag, slots.get());
    rows.emplace_back(row, std::move(slots));
  }

  Output out;
  // Errors of the command line itself want the format, too.
  for (int i = 1; i < argc; ++i) {
    const absl::string_view word = argv[i];
    if (word == "-ojson" || word == "--output=json" ||
        ((word == "-o" || word == "--output") && i + 1 < argc &&
         absl::string_view(argv[i + 1]) == "json")) {
      out.format = OutputFormat::kJson;
    }
  }
  if (argc == 2 && absl::string_view(argv[1]) == "--version") {
    Invocation invocation;
    invocation.out = &out;
    for (const Command& command : Commands()) {
      if (command.path == "version") return command.run(invocation);
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    if (argc > 1 && argv[1][0] != '-' && !IsCommand(argv[1])) {
      return out.Error(kExitUsage, "USAGE",
                       absl::StrCat("command \"", argv[1],
                                    "\" is not known; see pipectl --help"));
    }
    return out.Error(kExitUsage, "USAGE",
                     absl::StrCat(error.what(), "; see pipectl --help"));
  }

  Invocation invocation;
  invocation.out = &out;
  const auto take = [&invocation](const Slots& slots) {
    for (const auto& [name, values] : slots.values) {
      if (!values.empty()) invocation.flags[name] = values;
    }
    for (const auto& [name, on] : slots.switches) {
      if (on) invocation.flags[name] = {"true"};
    }
    for (const auto& words : slots.positionals) {
      invocation.positionals.insert(invocation.positionals.end(), words.begin(),
                                    words.end());
    }
  };
  take(global);
  const char* from_environment = std::getenv("PIPEWORK_OUTPUT");
  const std::string format = invocation.Get(
      "output", from_environment == nullptr ? "table" : from_environment);
  if (format == "json") {
    out.format = OutputFormat::kJson;
  } else if (format == "name") {
    out.format = OutputFormat::kName;
  } else if (format != "table") {
    return out.Error(kExitUsage, "USAGE",
                     absl::StrCat("--output: format is \"", format,
                                  "\", expected table, json or name"));
  }
  out.quiet = invocation.Has("quiet");
  const std::string when = invocation.Get("color", "auto");
  if (when != "auto" && when != "always" && when != "never") {
    return out.Error(kExitUsage, "USAGE",
                     absl::StrCat("--color: value is \"", when,
                                  "\", expected auto, always or never"));
  }
  out.color = WantColor(when);
  // Checked here: not every command comes to use it.
  double timeout_seconds = 0;
  const absl::Status timeout =
      invocation.GetSeconds("timeout", &timeout_seconds);
  if (!timeout.ok()) return out.Error(kExitUsage, "USAGE", timeout.message());

  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].first->parsed()) continue;
    take(*rows[i].second);
    return AfterPrinting(Commands()[i].run(invocation));
  }
  return kExitUsage;
}

}  // namespace
}  // namespace pipework

int main(int argc, char** argv) { return pipework::Main(argc, argv); }
