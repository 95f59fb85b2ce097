// One log format for every process, on standard error, through spdlog:
//   2024-05-01T10:20:30.123Z INFO  piped: node n1 registered
// Callers use spdlog::info(...) and its sisters.
#ifndef PIPEWORK_DAEMON_BASE_LOG_H_
#define PIPEWORK_DAEMON_BASE_LOG_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace pipework {

// A line as a hook sees it.
struct LogRecord {
  absl::Time time;
  std::string level;  // debug, info, warning, error
  std::string message;
};

// Sets the format and the level: debug, info, warning, error or off. Call it
// first thing in main, before a file is opened: it opens /dev/null for those of
// the descriptors 0 to 2 that are closed. InvalidArgument: another level.
absl::Status InitLog(const std::string& program, const std::string& level);

// From now on `hook` also gets every line that passes the level, from the
// thread that logs; it must not log itself. nullptr ends that; when this
// returns, the hook before it runs no more.
void SetLogHook(std::function<void(const LogRecord&)> hook);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_LOG_H_
