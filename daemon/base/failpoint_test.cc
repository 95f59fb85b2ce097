#include "daemon/base/failpoint.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "daemon/base/clock.h"
#include "daemon/base/subprocess.h"

namespace pipework {
namespace {

TEST_CASE("failpoint: what is not set is fine, and counted") {
  REQUIRE(SetFailpoints("").ok());
  CHECK(FAILPOINT("a").ok());
  CHECK(FAILPOINT("a").ok());
  CHECK(FailpointHits("a") == 2);
  CHECK(FailpointHits("b") == 0);
}

TEST_CASE("failpoint: an error names the place and the text") {
  REQUIRE(SetFailpoints("a=error(disk is full); b=sleep(0);c=off").ok());
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = FAILPOINT("a");
    CHECK(absl::IsUnavailable(status));
    CHECK(std::string(status.message()) == "failpoint a: disk is full");
  }
  CHECK(FAILPOINT("b").ok());
  CHECK(FAILPOINT("c").ok());
}

TEST_CASE("failpoint: skip and once choose one time") {
  REQUIRE(SetFailpoints("a=skip(2):once:error(x)").ok());
  std::string seen;
  for (int i = 0; i < 5; ++i) seen += FAILPOINT("a").ok() ? '.' : 'x';
  CHECK(seen == "..x..");
}

TEST_CASE(
    "failpoint: what is not in the grammar is refused, and nothing "
    "changes") {
  REQUIRE(SetFailpoints("a=error(x)").ok());
  for (const char* bad : {"a", "a=", "a=explode", "a=error", "a=sleep(x)",
                          "a=skip(x):kill", "a=exit()"}) {
    CAPTURE(bad);
    CHECK(absl::IsInvalidArgument(SetFailpoints(bad)));
  }
  CHECK_FALSE(FAILPOINT("a").ok());
}

TEST_CASE("a process with a failpoint", "[.fails]") { (void)FAILPOINT("here"); }

TEST_CASE("failpoint: the environment of a process sets them") {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  REQUIRE(n > 0);
  const auto run = [&](const std::string& spec) {
    Subprocess::Options options;
    options.program = std::string(self, n);
    options.args = {"[.fails]"};
    options.output_file = "/dev/null";
    options.extra_environment = {"PIPEWORK_FAILPOINTS=" + spec};
    auto process = Subprocess::Spawn(options);
    REQUIRE(process.ok());
    auto status = (*process)->Wait(MonotonicNow() + absl::Seconds(30));
    REQUIRE(status.ok());
    return DescribeWaitStatus(*status);
  };
  CHECK(run("here=kill") == "signal 9 (Killed)");
  CHECK(run("here=exit(9)") == "exit 9");
  CHECK(run("there=kill") == "exit 0");
  CHECK(run("nonsense") == "exit 2");
}

}  // namespace
}  // namespace pipework
