// The job store with failpoints: a commit is there whole or not at all.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "daemon/base/failpoint.h"
#include "daemon/coordinator/job_store.h"
#include "daemon/coordinator/job_writer.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

const absl::Time kNow = absl::FromUnixSeconds(1700000000);

absl::Status StoreOne(const std::string& folder) {
  auto writer = JobWriter::Open(folder);
  if (!writer.ok()) return writer.status();
  v1::Job job;
  job.set_id("j-aaaaaa");
  v1::JobRecord record;
  v1::JobEvent event;
  event.set_revision(1);
  return (*writer)->Commit({{&job, &record, {event}}}, {},
                           StoredRequest{"r1", "h", "j-aaaaaa"}, kNow);
}

TEST_CASE(
    "job store: killed at a point of a commit, the change is whole or absent") {
  struct Case {
    const char* point;
    size_t jobs;
  };
  for (const Case& each :
       {Case{"job_store.before_commit", 0}, Case{"job_store.commit", 0},
        Case{"job_store.after_commit", 1}}) {
    CAPTURE(each.point);
    std::string folder = "/tmp/pwstoreXXXXXX";
    REQUIRE(mkdtemp(&folder[0]) != nullptr);
    const pid_t child = fork();
    if (child == 0) {
      SetFailpoints(absl::StrCat(each.point, "=kill")).IgnoreError();
      StoreOne(folder).IgnoreError();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    auto writer = JobWriter::Open(folder);
    REQUIRE(writer.ok());
    CHECK((*writer)->LoadJobs()->size() == each.jobs);
    CHECK((*writer)->FindRequest("r1", kNow)->has_value() == (each.jobs == 1));
    auto reader = JobStoreReader::Open(folder);
    CHECK((*reader)->Events("j-aaaaaa")->size() == each.jobs);
    // And the store works again.
    if (each.jobs == 0) CHECK(StoreOne(folder).ok());
    fs::remove_all(folder);
  }
}

TEST_CASE("job store: an error in a commit leaves nothing of it") {
  std::string folder = "/tmp/pwstoreXXXXXX";
  REQUIRE(mkdtemp(&folder[0]) != nullptr);
  REQUIRE(SetFailpoints("job_store.commit=once:error(no space)").ok());
  CHECK_FALSE(StoreOne(folder).ok());
  {
    auto writer = JobWriter::Open(folder);
    CHECK((*writer)->LoadJobs()->empty());
  }
  CHECK(StoreOne(folder).ok());
  REQUIRE(SetFailpoints("").ok());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace pipework
