#include "cli/commands/completion.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/exit_code.h"

namespace pipework {
namespace {

// Long and short names of a row's flags and the global ones.
std::string FlagWords(const std::vector<Flag>& flags) {
  std::vector<std::string> words;
  for (const Flag& flag : flags) {
    for (absl::string_view name : absl::StrSplit(flag.name, ',')) {
      words.emplace_back(name);
    }
  }
  for (const Flag& flag : GlobalFlags()) {
    for (absl::string_view name : absl::StrSplit(flag.name, ',')) {
      words.emplace_back(name);
    }
  }
  words.emplace_back("--help");
  return absl::StrJoin(words, " ");
}

// First words; and for each first word with several commands, the second ones.
std::map<std::string, std::set<std::string>> Words() {
  std::map<std::string, std::set<std::string>> words;
  for (const Command& command : Commands()) {
    const std::vector<std::string> parts = absl::StrSplit(command.path, ' ');
    auto& second = words[parts[0]];
    if (parts.size() > 1) second.insert(parts[1]);
  }
  return words;
}

std::string Bash() {
  std::vector<std::string> first;
  std::string second;
  for (const auto& [word, seconds] : Words()) {
    first.push_back(word);
    if (!seconds.empty()) {
      absl::StrAppend(&second, "    ", word, ") words=\"",
                      absl::StrJoin(seconds, " "), "\" ;;\n");
    }
  }
  std::string flags;
  for (const Command& command : Commands()) {
    absl::StrAppend(&flags, "    \"", command.path, "\") flags=\"",
                    FlagWords(command.flags), "\" ;;\n");
  }
  return absl::StrCat(
      R"SH(# bash completion for pipectl: source <(pipectl completion bash)
_pipectl() {
  local current="${COMP_WORDS[COMP_CWORD]}" words="" flags="" path="" word
  local -a plain=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ "$word" == -* ]] || plain+=("$word")
  done
  case "${plain[0]}" in
)SH",
      second, R"SH(  esac
  path="${plain[0]}"
  if [[ -n "$words" && ${#plain[@]} -ge 2 ]]; then path="$path ${plain[1]}"; fi
  case "$path" in
)SH",
      flags, R"SH(  esac
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [[ ${#plain[@]} -eq 0 ]]; then
    COMPREPLY=($(compgen -W ")SH",
      absl::StrJoin(first, " "),
      R"SH(" -- "$current"))
  elif [[ -n "$words" && ${#plain[@]} -eq 1 ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  elif [[ "$path" =~ ^(show|status|logs|wait|cancel|checkpoint\ .*)$ ]]; then
    COMPREPLY=($(compgen -W "$(pipectl jobs -o name --timeout 1s 2>/dev/null | sed 's|^job/||')" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -F _pipectl pipectl
)SH");
}

std::string Zsh() {
  return absl::StrCat(
      "#compdef pipectl\n"
      "# zsh completion for pipectl: source <(pipectl completion zsh)\n"
      "autoload -U +X bashcompinit && bashcompinit\n",
      Bash());
}

std::string Fish() {
  std::string out =
      "# fish completion for pipectl: pipectl completion fish | source\n"
      "complete -c pipectl -f\n";
  const auto quoted = [](absl::string_view text) {
    return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "\\'"}}), "'");
  };
  const auto flag_lines = [&](const std::vector<Flag>& flags,
                              absl::string_view condition) {
    for (const Flag& flag : flags) {
      std::string line = "complete -c pipectl";
      if (!condition.empty()) absl::StrAppend(&line, " -n ", quoted(condition));
      for (absl::string_view name : absl::StrSplit(flag.name, ',')) {
        absl::StrAppend(&line, name.substr(0, 2) == "--"
                                   ? absl::StrCat(" -l ", name.substr(2))
                                   : absl::StrCat(" -s ", name.substr(1)));
      }
      if (!flag.value.empty()) line += " -r -F";
      absl::StrAppend(&out, line, " -d ", quoted(flag.help), "\n");
    }
  };
  flag_lines(GlobalFlags(), "");
  std::set<std::string> seen;
  for (const Command& command : Commands()) {
    const std::vector<std::string> parts = absl::StrSplit(command.path, ' ');
    if (seen.insert(parts[0]).second) {
      absl::StrAppend(
          &out, "complete -c pipectl -n __fish_use_subcommand -a ", parts[0],
          parts.size() == 1 ? absl::StrCat(" -d ", quoted(command.summary))
                            : "",
          "\n");
    }
    std::string condition =
        absl::StrCat("__fish_seen_subcommand_from ", parts[0]);
    if (parts.size() > 1) {
      absl::StrAppend(&out, "complete -c pipectl -n ", quoted(condition),
                      " -a ", parts[1], " -d ", quoted(command.summary), "\n");
      absl::StrAppend(&condition, "; and __fish_seen_subcommand_from ",
                      parts[1]);
    }
    flag_lines(command.flags, condition);
    if (!command.positionals.empty() && command.positionals[0].name != "JOB") {
      absl::StrAppend(&out, "complete -c pipectl -n ", quoted(condition),
                      " -F\n");
    }
  }
  return out;
}

}  // namespace

int Completion(Invocation& invocation) {
  const std::string shell = invocation.positionals[0];
  std::string text;
  if (shell == "bash") {
    text = Bash();
  } else if (shell == "zsh") {
    text = Zsh();
  } else if (shell == "fish") {
    text = Fish();
  } else {
    return invocation.out->Error(
        kExitUsage, "USAGE",
        absl::StrCat("completion: shell is \"", shell,
                     "\", expected bash, zsh or fish"));
  }
  // A script is the same in every output format.
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitOk;
}

}  // namespace pipework
