#include "daemon/base/log.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"

namespace pipework {
namespace {

std::string LevelName(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return "debug";
    case spdlog::level::info:
      return "info";
    case spdlog::level::warn:
      return "warning";
    default:
      return "error";
  }
}

// Hands lines to the hook; base_sink's mutex orders that with SetHook.
class HookSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void SetHook(std::function<void(const LogRecord&)> hook) {
    std::lock_guard<std::mutex> lock(mutex_);
    hook_ = std::move(hook);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!hook_) return;
    hook_(
        LogRecord{absl::FromChrono(message.time), LevelName(message.level),
                  std::string(message.payload.data(), message.payload.size())});
  }
  void flush_() override {}

 private:
  std::function<void(const LogRecord&)> hook_;
};

// The message without control codes: names and texts of others must not move
// the cursor of a terminal or forge a line.
class SafePayload final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    for (const char c : message.payload) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x20 && byte != 0x7f) {
        out.push_back(c);
        continue;
      }
      const std::string code =
          byte == '\t' ? " "
                       : absl::StrCat("\\x", absl::Hex(byte, absl::kZeroPad2));
      out.append(code.data(), code.data() + code.size());
    }
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<SafePayload>();
  }
};

std::shared_ptr<HookSink> TheHookSink() {
  static const auto sink = std::make_shared<HookSink>();
  return sink;
}

// Where the parent closed one of the first three descriptors, a file opened
// later would take its number, and log lines would go into that file.
void OpenStandardDescriptors() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace

absl::Status InitLog(const std::string& program, const std::string& level) {
  OpenStandardDescriptors();
  spdlog::level::level_enum parsed;
  if (level == "debug") {
    parsed = spdlog::level::debug;
  } else if (level == "info") {
    parsed = spdlog::level::info;
  } else if (level == "warning") {
    parsed = spdlog::level::warn;
  } else if (level == "error") {
    parsed = spdlog::level::err;
  } else if (level == "off") {
    parsed = spdlog::level::off;
  } else {
    return Mismatch(program, "log level", absl::StrCat("\"", level, "\""),
                    "debug, info, warning, error or off");
  }
  auto to_stderr = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(
      program, spdlog::sinks_init_list{to_stderr, TheHookSink()});
  // UTC, so that lines of several machines can be merged.
  auto format = std::make_unique<spdlog::pattern_formatter>(
      spdlog::pattern_time_type::utc);
  format->add_flag<SafePayload>('*').set_pattern(
      "%Y-%m-%dT%H:%M:%S.%eZ %-7l %n: %*");
  logger->set_formatter(std::move(format));
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

void SetLogHook(std::function<void(const LogRecord&)> hook) {
  TheHookSink()->SetHook(std::move(hook));
}

}  // namespace pipework
