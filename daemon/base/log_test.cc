#include "daemon/base/log.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

namespace pipework {
namespace {

TEST_CASE(
    "log: a hook sees the lines that pass the level, until it is taken "
    "away") {
  REQUIRE(InitLog("test", "info").ok());
  std::vector<LogRecord> seen;
  SetLogHook([&](const LogRecord& record) { seen.push_back(record); });
  spdlog::debug("no");
  spdlog::info("the answer is {}", 42);
  spdlog::warn("careful");
  spdlog::error("bad");
  SetLogHook(nullptr);
  spdlog::info("not seen");
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].message == "the answer is 42");
  CHECK(seen[0].level == "info");
  CHECK(seen[1].level == "warning");
  CHECK(seen[2].level == "error");
  CHECK(seen[0].time > absl::UnixEpoch());
}

TEST_CASE("log: no later file takes the number of a closed descriptor") {
  const int kept = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  REQUIRE(InitLog("test", "info").ok());
  const int file = ::open("/dev/null", O_RDONLY);
  CHECK(file > STDERR_FILENO);
  ::close(file);
  if (kept >= 0) {
    ::dup2(kept, STDIN_FILENO);
    ::close(kept);
  }
}

TEST_CASE("log: control codes of a message come out as text") {
  std::string name = "/tmp/pwlogXXXXXX";
  const int file = ::mkstemp(&name[0]);
  const int kept = ::dup(STDERR_FILENO);
  REQUIRE(InitLog("test", "info").ok());
  ::dup2(file, STDERR_FILENO);
  spdlog::info("node \033[31mred\n2024 forged: line");
  spdlog::default_logger()->flush();
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  char text[256] = {};
  const ssize_t n = ::pread(file, text, sizeof text - 1, 0);
  ::close(file);
  ::unlink(name.c_str());
  REQUIRE(n > 0);
  const std::string line(text);
  CHECK(line.find("test: node \\x1b[31mred\\x0a2024 forged: line\n") !=
        std::string::npos);
}

TEST_CASE("log: an unknown level is refused with the known ones") {
  const absl::Status status = InitLog("piped", "loud");
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()) ==
        "piped: log level is \"loud\", expected debug, info, warning, error or "
        "off");
}

}  // namespace
}  // namespace pipework
