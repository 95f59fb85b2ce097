#include "daemon/base/shutdown.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "daemon/base/clock.h"
#include "daemon/base/subprocess.h"

namespace pipework {
namespace {

absl::Time Soon() { return MonotonicNow() + absl::Seconds(30); }

// The process of the tests below: says when it is ready, when it was asked to
// end, and ends then, or goes on for ever.
TEST_CASE("a process that is asked to end", "[.asked]") {
  ShutdownSignal& signal = ShutdownSignal::Install();
  CHECK_FALSE(signal.requested());
  CHECK_FALSE(signal.Wait(MonotonicNow()));
  (void)!::write(1, "R", 1);
  CHECK(signal.Wait(Soon()));
  pollfd entry = {signal.fd(), POLLIN, 0};
  CHECK(::poll(&entry, 1, 0) == 1);
  CHECK(signal.signal_number() == SIGTERM);
  (void)!::write(1, "A", 1);
  if (std::getenv("STUBBORN") != nullptr) {
    for (;;) ::pause();
  }
}

std::unique_ptr<Subprocess> Start(bool stubborn) {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  REQUIRE(n > 0);
  Subprocess::Options options;
  options.program = std::string(self, n);
  options.args = {"[.asked]"};
  options.output_file = "-";
  if (stubborn) options.extra_environment = {"STUBBORN=1"};
  auto process = Subprocess::Spawn(options);
  REQUIRE(process.ok());
  return *std::move(process);
}

// Reads up to `wanted`.
bool Says(const UniqueFd& out, char wanted) {
  char byte;
  while (::read(out.get(), &byte, 1) == 1) {
    if (byte == wanted) return true;
  }
  return false;
}

TEST_CASE("shutdown: the first signal asks") {
  auto process = Start(false);
  const UniqueFd out = process->TakeOutput();
  REQUIRE(Says(out, 'R'));
  process->Signal(SIGTERM);
  CHECK(Says(out, 'A'));
  const auto status = process->Wait(Soon());
  REQUIRE(status.ok());
  CHECK(DescribeWaitStatus(*status) == "exit 0");
}

TEST_CASE("shutdown: the second signal ends the process at once") {
  auto process = Start(true);
  const UniqueFd out = process->TakeOutput();
  REQUIRE(Says(out, 'R'));
  process->Signal(SIGTERM);
  REQUIRE(Says(out, 'A'));
  process->Signal(SIGINT);
  const auto status = process->Wait(Soon());
  REQUIRE(status.ok());
  CHECK(DescribeWaitStatus(*status) == "exit 130");
}

TEST_CASE("shutdown: a request from within is one too") {
  ShutdownSignal& signal = ShutdownSignal::Install();
  signal.Request();
  CHECK(signal.requested());
  CHECK(signal.Wait(Soon()));
  CHECK(signal.signal_number() == 0);
}

}  // namespace
}  // namespace pipework
