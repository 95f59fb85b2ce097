// --config=testing.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "daemon/base/failpoint.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

struct Setting {
  int64_t skip = 0;
  int64_t times = -1;  // -1: without end
  enum { kOff, kError, kSleep, kKill, kExit } action = kOff;
  std::string text;
  int64_t number = 0;
};

// "sleep(50)" -> "50" when `name` is sleep.
bool Call(absl::string_view text, absl::string_view name,
          absl::string_view* argument) {
  if (!absl::ConsumePrefix(&text, name) || !absl::ConsumePrefix(&text, "(") ||
      !absl::ConsumeSuffix(&text, ")")) {
    return false;
  }
  *argument = text;
  return true;
}

absl::StatusOr<Setting> Parse(absl::string_view entry, absl::string_view text) {
  Setting setting;
  absl::string_view argument;
  for (;;) {
    if (absl::ConsumePrefix(&text, "once:")) {
      setting.times = 1;
      continue;
    }
    const size_t end = text.find("):");
    if (absl::StartsWith(text, "skip(") && end != absl::string_view::npos) {
      if (!absl::SimpleAtoi(text.substr(5, end - 5), &setting.skip)) break;
      text.remove_prefix(end + 2);
      continue;
    }
    break;
  }
  if (text == "off") return setting;
  if (text == "kill") {
    setting.action = Setting::kKill;
    return setting;
  }
  if (Call(text, "error", &argument)) {
    setting.action = Setting::kError;
    setting.text = std::string(argument);
    return setting;
  }
  if (Call(text, "sleep", &argument) &&
      absl::SimpleAtoi(argument, &setting.number)) {
    setting.action = Setting::kSleep;
    return setting;
  }
  if (Call(text, "exit", &argument) &&
      absl::SimpleAtoi(argument, &setting.number)) {
    setting.action = Setting::kExit;
    return setting;
  }
  return Mismatch("failpoints", "entry", absl::StrCat("\"", entry, "\""),
                  "NAME=[skip(N):][once:]error(TEXT)|sleep(MS)|kill|exit(CODE)"
                  "|off");
}

class Table {
 public:
  Table() {
    const char* spec = std::getenv("PIPEWORK_FAILPOINTS");
    if (spec == nullptr) return;
    const absl::Status status = Set(spec);
    if (status.ok()) return;
    std::fprintf(stderr, "PIPEWORK_FAILPOINTS: %s\n",
                 std::string(status.message()).c_str());
    _exit(2);
  }

  absl::Status Set(const std::string& spec) {
    std::map<std::string, Setting> settings;
    for (absl::string_view entry :
         absl::StrSplit(spec, ';', absl::SkipWhitespace())) {
      entry = absl::StripAsciiWhitespace(entry);
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(entry, absl::MaxSplits('=', 1));
      ASSIGN_OR_RETURN(settings[std::string(parts.first)],
                       Parse(entry, parts.second));
    }
    std::lock_guard<std::mutex> lock(mutex_);
    settings_ = std::move(settings);
    hits_.clear();
    return absl::OkStatus();
  }

  absl::Status Reach(const char* name) {
    Setting setting;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++hits_[name];
      const auto it = settings_.find(name);
      if (it == settings_.end()) return absl::OkStatus();
      if (it->second.skip > 0) {
        --it->second.skip;
        return absl::OkStatus();
      }
      if (it->second.times == 0) return absl::OkStatus();
      if (it->second.times > 0) --it->second.times;
      setting = it->second;
    }
    switch (setting.action) {
      case Setting::kOff:
        break;
      case Setting::kError:
        return absl::UnavailableError(
            absl::StrCat("failpoint ", name, ": ", setting.text));
      case Setting::kSleep:
        absl::SleepFor(absl::Milliseconds(setting.number));
        break;
      case Setting::kKill:
        ::kill(::getpid(), SIGKILL);
        // The signal may take a moment to arrive.
        for (;;) ::pause();
      case Setting::kExit:
        _exit(static_cast<int>(setting.number));
    }
    return absl::OkStatus();
  }

  int64_t Hits(const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = hits_.find(name);
    return it == hits_.end() ? 0 : it->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Setting> settings_;
  std::map<std::string, int64_t> hits_;
};

Table& TheTable() {
  static Table table;
  return table;
}

}  // namespace

absl::Status Failpoint(const char* name) { return TheTable().Reach(name); }

absl::Status SetFailpoints(const std::string& spec) {
  return TheTable().Set(spec);
}

int64_t FailpointHits(const std::string& name) { return TheTable().Hits(name); }

}  // namespace pipework
