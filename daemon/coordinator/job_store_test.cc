// The job store: what is committed stays, whatever happens to the process.
#include "daemon/coordinator/job_store.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "daemon/coordinator/job_writer.h"
#include "daemon/coordinator/sqlite.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

const absl::Time kNow = absl::FromUnixSeconds(1700000000);

struct Folder {
  Folder() { REQUIRE(mkdtemp(&path[0]) != nullptr); }
  ~Folder() { fs::remove_all(path); }
  std::string path = "/tmp/pwstoreXXXXXX";
};

std::unique_ptr<JobWriter> OpenWriter(const std::string& folder) {
  auto writer = JobWriter::Open(folder);
  INFO(writer.status().message());
  REQUIRE(writer.ok());
  return *std::move(writer);
}

v1::Job MakeJob(const std::string& id, const std::string& name) {
  v1::Job job;
  job.set_id(id);
  job.set_name(name);
  job.set_state(v1::QUEUED);
  return job;
}

v1::JobEvent MakeEvent(int64_t revision, const std::string& text) {
  v1::JobEvent event;
  event.set_revision(revision);
  event.set_at(1.5);
  event.set_type("STATE");
  event.set_text(text);
  return event;
}

void Store(JobWriter& writer, const v1::Job& job,
           const std::optional<StoredRequest>& request = std::nullopt) {
  v1::JobRecord record;
  record.set_restarts(3);
  REQUIRE(writer
              .Commit({{&job, &record, {MakeEvent(1, "QUEUED")}}},
                      {{"n1", {7, 42}}}, request, kNow)
              .ok());
}

v1::LogLine Line(const std::string& node, int64_t report,
                 const std::string& text) {
  v1::LogLine line;
  line.set_attempt(1);
  line.set_node(node);
  line.set_report(report);
  line.set_text(text);
  return line;
}

TEST_CASE(
    "job store: a job, its event, its request and the node's mark come back") {
  Folder folder;
  {
    auto writer = OpenWriter(folder.path);
    Store(*writer, MakeJob("j-aaaaaa", "one"),
          StoredRequest{"r1", "hash", "j-aaaaaa"});
  }
  auto writer = OpenWriter(folder.path);
  const auto jobs = writer->LoadJobs();
  REQUIRE(jobs.ok());
  REQUIRE(jobs->size() == 1);
  CHECK((*jobs)[0].job.name() == "one");
  CHECK((*jobs)[0].record.restarts() == 3);
  const auto acks = writer->LoadAcks();
  REQUIRE(acks.ok());
  CHECK(acks->at("n1").incarnation == 7);
  CHECK(acks->at("n1").sequence == 42);
  const auto request = writer->FindRequest("r1", kNow);
  REQUIRE(request.ok());
  REQUIRE(request->has_value());
  CHECK((*request)->job == "j-aaaaaa");
  CHECK((*request)->hash == "hash");
}

TEST_CASE(
    "job store: a reader sees each commit while the writer is open, and "
    "without it") {
  Folder folder;
  auto writer = OpenWriter(folder.path);
  auto reader = JobStoreReader::Open(folder.path);
  REQUIRE(reader.ok());
  Store(*writer, MakeJob("j-aaaaaa", "one"));
  CHECK((*reader)->ListJobs()->size() == 1);
  Store(*writer, MakeJob("j-bbbbbb", "two"));
  const auto jobs = (*reader)->ListJobs();
  REQUIRE(jobs.ok());
  REQUIRE(jobs->size() == 2);
  CHECK((*jobs)[0].name() == "two");  // newest first
  CHECK((*reader)->Events("j-aaaaaa")->size() == 1);
  writer.reset();
  CHECK((*reader)->ListJobs()->size() == 2);
  auto late = JobStoreReader::Open(folder.path);
  REQUIRE(late.ok());
  CHECK((*late)->ListJobs()->size() == 2);
}

TEST_CASE(
    "job store: the writer that was killed leaves everything it committed") {
  Folder folder;
  Folder copy;
  auto writer = OpenWriter(folder.path);
  Store(*writer, MakeJob("j-aaaaaa", "one"));
  // What is on the disk now is what kill -9 would leave: the log is not yet
  // moved into the database.
  for (const char* file : {"state.db", "state.db-wal"}) {
    REQUIRE(fs::copy_file(folder.path + "/" + file, copy.path + "/" + file));
  }
  auto after = OpenWriter(copy.path);
  CHECK(after->LoadJobs()->size() == 1);
}

TEST_CASE(
    "job store: requests are forgotten after a day, and an id is taken once") {
  Folder folder;
  auto writer = OpenWriter(folder.path);
  Store(*writer, MakeJob("j-aaaaaa", "one"),
        StoredRequest{"r1", "hash", "j-aaaaaa"});
  CHECK((*writer->FindRequest("r1", kNow + absl::Hours(23))).has_value());
  CHECK_FALSE((*writer->FindRequest("r1", kNow + absl::Hours(25))).has_value());
  // A second job under the same id is stored neither in part nor in whole.
  const v1::Job job = MakeJob("j-bbbbbb", "two");
  const v1::JobRecord record;
  CHECK_FALSE(writer
                  ->Commit({{&job, &record, {}}}, {},
                           StoredRequest{"r1", "other", "j-bbbbbb"}, kNow)
                  .ok());
  CHECK(writer->LoadJobs()->size() == 1);
}

TEST_CASE("job store: command ids are never given twice") {
  Folder folder;
  const int64_t first = *OpenWriter(folder.path)->ReserveCommandIds(100);
  const int64_t second = *OpenWriter(folder.path)->ReserveCommandIds(100);
  CHECK(first > 0);
  CHECK(second >= first + 100);
}

TEST_CASE("job store: references are ids, prefixes of four, or names") {
  Folder folder;
  auto writer = OpenWriter(folder.path);
  Store(*writer, MakeJob("j-aaaa11", "same"));
  Store(*writer, MakeJob("j-aaaa22", "same"));
  Store(*writer, MakeJob("j-bbbb33", "other"));
  auto reader = JobStoreReader::Open(folder.path);
  const auto id = [&reader](const std::string& ref) {
    const auto job = (*reader)->FindJob(ref);
    return job.ok() ? job->id() : std::string(job.status().message());
  };
  CHECK(id("j-aaaa11") == "j-aaaa11");
  CHECK(id("j-bb") == "j-bbbb33");
  CHECK(id("name/same") == "j-aaaa22");
  CHECK(absl::IsInvalidArgument((*reader)->FindJob("j-aaaa").status()));
  CHECK(absl::IsNotFound((*reader)->FindJob("j-b").status()));
  CHECK(absl::IsNotFound((*reader)->FindJob("j-zzzz").status()));
  CHECK(absl::IsNotFound((*reader)->FindJob("name/none").status()));
  // Who changes a job names it exactly.
  const auto jobs = (*reader)->ListJobs();
  std::vector<const v1::Job*> pointers;
  for (const v1::Job& job : *jobs) pointers.push_back(&job);
  CHECK_FALSE(FindReference(pointers, "j-bbbb", true).ok());
  CHECK_FALSE(FindReference(pointers, "name/same", true).ok());
  CHECK(FindReference(pointers, "name/other", true).ok());
}

TEST_CASE("job store: log lines get numbers, and a repeated report adds none") {
  Folder folder;
  std::vector<v1::LogLine> lines = {Line("n1", 5, "a"), Line("n2", 5, "b"),
                                    Line("", 0, "own")};
  {
    auto writer = OpenWriter(folder.path);
    REQUIRE(writer->AppendLog("j-aaaaaa", &lines).ok());
    CHECK(lines[2].sequence() == 3);
  }
  // After a restart a node sends again what was not acknowledged.
  auto writer = OpenWriter(folder.path);
  lines = {Line("n1", 5, "a"), Line("n1", 6, "c"), Line("", 0, "own")};
  REQUIRE(writer->AppendLog("j-aaaaaa", &lines).ok());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].sequence() == 4);
  Store(*writer, MakeJob("j-aaaaaa", "one"));
  auto reader = JobStoreReader::Open(folder.path);
  const auto all = (*reader)->Log("j-aaaaaa", 0, 0);
  REQUIRE(all.ok());
  REQUIRE(all->size() == 5);
  CHECK((*all)[3].text() == "c");
  CHECK((*reader)->Log("j-aaaaaa", 3, 1)->at(0).sequence() == 4);
  CHECK((*reader)->Log("j-nobody", 0, 0)->empty());
}

TEST_CASE(
    "job store: a torn last line is cut off, and numbers go on behind it") {
  Folder folder;
  std::vector<v1::LogLine> lines = {Line("n1", 1, "whole")};
  REQUIRE(OpenWriter(folder.path)->AppendLog("j-aaaaaa", &lines).ok());
  std::ofstream(LogFile(folder.path, "j-aaaaaa"), std::ios::app)
      << R"({"sequence":"2","text":"to)";
  lines = {Line("n1", 2, "next")};
  REQUIRE(OpenWriter(folder.path)->AppendLog("j-aaaaaa", &lines).ok());
  const auto all = LogCursor(LogFile(folder.path, "j-aaaaaa")).Next(0, 0);
  REQUIRE(all.ok());
  REQUIRE(all->size() == 2);
  CHECK((*all)[1].sequence() == 2);
  CHECK((*all)[1].text() == "next");
}

TEST_CASE("job store: a cursor gives each line once, as it becomes whole") {
  Folder folder;
  auto writer = OpenWriter(folder.path);
  LogCursor cursor(LogFile(folder.path, "j-aaaaaa"));
  CHECK(cursor.Next(0, 0)->empty());
  std::vector<v1::LogLine> lines = {Line("n1", 1, "a"), Line("n1", 1, "b")};
  REQUIRE(writer->AppendLog("j-aaaaaa", &lines).ok());
  CHECK(cursor.Next(0, 1)->at(0).text() == "a");
  CHECK(cursor.Next(0, 1)->at(0).text() == "b");
  std::ofstream file(LogFile(folder.path, "j-aaaaaa"), std::ios::app);
  file << R"({"sequence":"3",)" << std::flush;
  CHECK(cursor.Next(0, 0)->empty());
  file << "\"text\":\"c\"}\n" << std::flush;
  REQUIRE(cursor.Next(0, 0)->size() == 1);
}

TEST_CASE("job store: a step that was run again replaces the earlier one") {
  Folder folder;
  auto writer = OpenWriter(folder.path);
  Store(*writer, MakeJob("j-aaaaaa", "one"));
  std::vector<v1::StepMetrics> steps(6);
  const int numbers[] = {0, 1, 2, 3, 2, 3};
  for (int i = 0; i < 6; ++i) {
    steps[static_cast<size_t>(i)].set_step(numbers[i]);
    steps[static_cast<size_t>(i)].set_loss(i);
  }
  for (const v1::StepMetrics& step : steps) {
    REQUIRE(writer->AppendSteps("j-aaaaaa", {&step}).ok());
  }
  auto reader = JobStoreReader::Open(folder.path);
  const auto read = (*reader)->Steps("j-aaaaaa");
  REQUIRE(read.ok());
  REQUIRE(read->size() == 4);
  CHECK((*read)[2].loss() == 4);
  CHECK((*read)[3].loss() == 5);
}

TEST_CASE("job store: a damaged database is refused and left as it is") {
  Folder folder;
  const std::string path = folder.path + "/state.db";
  {
    auto writer = OpenWriter(folder.path);
    Store(*writer, MakeJob("j-aaaaaa", "one"));
  }
  SECTION("no database at all") {
    std::ofstream(path) << "hello, hello, hello";
  }
  SECTION("a page of rubbish") {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(0);
    file << std::string(4096, '#');
  }
  SECTION("nothing in it, beside folders of jobs") {
    fs::create_directories(JobFolder(folder.path, "j-aaaaaa"));
    fs::resize_file(path, 0);
    fs::remove(path + "-wal");
  }
  const auto size = fs::file_size(path);
  const auto writer = JobWriter::Open(folder.path);
  CHECK(absl::IsDataLoss(writer.status()));
  CHECK(writer.status().message().find("state.db") != std::string::npos);
  CHECK(writer.status().message().find('\n') == std::string::npos);
  CHECK(fs::file_size(path) == size);
}

TEST_CASE(
    "job store: readers and writers refuse the database of another "
    "version, and leave it") {
  Folder folder;
  { OpenWriter(folder.path); }
  {
    auto db = SqlDatabase::Open(folder.path + "/state.db",
                                SqlDatabase::Mode::kWriter);
    REQUIRE(db.ok());
    REQUIRE(db->Execute("PRAGMA user_version = 99").ok());
  }
  for (const absl::Status& status :
       {JobWriter::Open(folder.path).status(),
        JobStoreReader::Open(folder.path).status()}) {
    const std::string text(status.message());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(text.find("state.db") != std::string::npos);
    CHECK(text.find("schema is 99, expected 1") != std::string::npos);
  }
}

TEST_CASE("job store: a read-only database is refused with its name") {
  if (geteuid() == 0) {
    // Root writes anywhere, so the file system has to refuse: a folder in
    // place of the file does.
    Folder folder;
    fs::create_directory(folder.path + "/state.db");
    CHECK_FALSE(JobWriter::Open(folder.path).ok());
    return;
  }
  Folder folder;
  { OpenWriter(folder.path); }
  chmod((folder.path + "/state.db").c_str(), 0444);
  const auto writer = JobWriter::Open(folder.path);
  CHECK(absl::IsPermissionDenied(writer.status()));
  CHECK(writer.status().message().find("state.db") != std::string::npos);
}

TEST_CASE("job store: where there is none the reader says which folder") {
  const auto reader = JobStoreReader::Open("/nowhere");
  CHECK(absl::IsNotFound(reader.status()));
  CHECK(reader.status().message().find("/nowhere") != std::string::npos);
}

}  // namespace
}  // namespace pipework
