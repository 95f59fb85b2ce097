// Saving that fails or dies at every single step of its input and output: the
// checkpoint before it is always there to go on from.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/failpoint.h"
#include "daemon/base/paths.h"
#include "daemon/base/subprocess.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/checkpoint/checkpoint_test_util.h"

namespace pipework {
namespace {

using testing::Holds;
using testing::Save;
using testing::TempFolder;

// What a job goes on from.
int64_t NewestComplete(const std::string& checkpoints) {
  for (const CheckpointEntry& entry : ListCheckpoints(checkpoints)) {
    if (entry.complete && VerifyCheckpoint(entry.folder).ok()) {
      return entry.manifest.step();
    }
  }
  return -1;
}

TEST_CASE(
    "checkpoint faults: an error at the Nth step leaves the older one "
    "valid, and the same save again succeeds") {
  int failed = 0;
  for (int n = 0;; ++n) {
    CAPTURE(n);
    TempFolder temp;
    REQUIRE(SetFailpoints("").ok());
    REQUIRE(Save(temp.path(), 1).ok());
    REQUIRE(SetFailpoints(absl::StrCat("checkpoint.io=skip(", n,
                                       "):once:error(disk is full)"))
                .ok());
    const auto saved = Save(temp.path(), 2);
    REQUIRE(SetFailpoints("").ok());
    if (saved.ok()) break;  // n is past the last step
    ++failed;
    CHECK(std::string(saved.status().message()).find("disk is full") !=
          std::string::npos);
    CHECK(Holds(temp.path() + "/step-00000001", 1));
    // After the rename it is there, whatever came then.
    const int64_t newest = NewestComplete(temp.path());
    CHECK((newest == 1 || newest == 2));
    CHECK(Save(temp.path(), 2).ok());
    CHECK(NewestComplete(temp.path()) == 2);
    CHECK(Holds(temp.path() + "/step-00000002", 2));
    CHECK(Retain(temp.path(), 1).ok());
    CHECK(ListCheckpoints(temp.path()).size() == 1);
  }
  CHECK(failed > 20);  // as many steps as a save has
}

// The process that is killed below.
TEST_CASE("a save in a process of its own", "[.save]") {
  REQUIRE(Save(std::getenv("CHECKPOINTS"), 2).ok());
}

TEST_CASE(
    "checkpoint faults: killed at every step, the newest complete one "
    "is whole") {
  std::vector<std::string> points = {
      "checkpoint.shard.begin=",   "checkpoint.shard.half=",
      "checkpoint.shard.end=",     "checkpoint.manifest.begin=",
      "checkpoint.publish.begin=", "checkpoint.publish.end="};
  for (int n = 0; n < 30; ++n) {
    points.push_back(absl::StrCat("checkpoint.io=skip(", n, "):"));
  }
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  REQUIRE(n > 0);
  int killed = 0;
  for (const std::string& point : points) {
    CAPTURE(point);
    TempFolder temp;
    REQUIRE(Save(temp.path(), 1).ok());
    Subprocess::Options options;
    options.program = std::string(self, n);
    options.args = {"[.save]"};
    options.extra_environment = {
        absl::StrCat("PIPEWORK_FAILPOINTS=", point, "kill"),
        absl::StrCat("CHECKPOINTS=", temp.path())};
    options.output_file = temp.path() + "/output";
    auto process = Subprocess::Spawn(options);
    REQUIRE(process.ok());
    const auto ended = (*process)->Wait(MonotonicNow() + absl::Minutes(1));
    REQUIRE(ended.ok());
    const bool was_killed = WIFSIGNALED(*ended) && WTERMSIG(*ended) == SIGKILL;
    killed += was_killed;
    CHECK((was_killed || *ended == 0));
    const int64_t newest = NewestComplete(temp.path());
    CHECK((newest == 1 || newest == 2));
    if (!was_killed || point == "checkpoint.publish.end=") CHECK(newest == 2);
    CHECK(Holds(temp.path() + "/step-00000001", 1));
    CHECK(Save(temp.path(), 3).ok());
    CHECK(NewestComplete(temp.path()) == 3);
    CHECK(Retain(temp.path(), 1).ok());
    CHECK(ListCheckpoints(temp.path()).size() == 1);
  }
  CHECK(killed > 25);
}

}  // namespace
}  // namespace pipework
