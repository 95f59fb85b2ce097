#include "daemon/executor/operation_log.h"

#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace pipework {
namespace {

OperationRecord Forward(int64_t unit) { return {'F', unit, unit, 0, unit, -1}; }

}  // namespace

TEST_CASE("operation log: the ring keeps the newest records, oldest first") {
  OperationLog log(4);
  CHECK(log.Snapshot().empty());
  for (int64_t unit = 0; unit < 10; ++unit) log.Append(Forward(unit));
  const std::vector<OperationRecord> records = log.Snapshot();
  REQUIRE(records.size() == 4);
  for (int64_t i = 0; i < 4; ++i) CHECK(records[i] == Forward(6 + i));
  CHECK(log.appended() == 10);
}

TEST_CASE("operation log: the file has every record, one a line") {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/oplog";
  OperationLog log(2);
  REQUIRE(log.OpenFile(path).ok());
  log.Append({'F', 41, 20, 1, 38, -1});
  log.Append({'B', 41, 20, 1, 38, -1});
  log.Append({'U', 40, 20, 0, 40, 41});
  REQUIRE(log.CloseFile().ok());
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)),
                   std::istreambuf_iterator<char>());
  CHECK(text == "F 41 20 1 38 -1\nB 41 20 1 38 -1\nU 40 20 0 40 41\n");
  CHECK(ToString(OperationRecord{'F', 41, 20, 1, 38, -1}) == "F 41 20 1 38 -1");
}

TEST_CASE(
    "operation log: a file that cannot be opened or written is an error") {
  OperationLog log(2);
  const absl::Status opened = log.OpenFile("/no/such/folder/oplog");
  CHECK(absl::IsUnavailable(opened));
  CHECK_THAT(std::string(opened.message()),
             Catch::Contains("/no/such/folder/oplog"));

  // A disk that is full: this process may write nothing for a moment.
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/full";
  OperationLog full(2);
  REQUIRE(full.OpenFile(path).ok());
  full.Append(Forward(1));
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit nothing{0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &nothing) == 0);
  const absl::Status closed = full.CloseFile();
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(absl::IsUnavailable(closed));
  CHECK_THAT(std::string(closed.message()), Catch::Contains(path));
}

TEST_CASE("operation log: another thread may look while it is written") {
  OperationLog log(64);
  std::thread writer([&log] {
    for (int64_t unit = 0; unit < 5000; ++unit) log.Append(Forward(unit));
  });
  int64_t newest = -1;
  while (log.appended() < 5000) {
    const std::vector<OperationRecord> records = log.Snapshot();
    for (size_t i = 1; i < records.size(); ++i) {
      REQUIRE(records[i].number == records[i - 1].number + 1);
    }
    if (!records.empty()) {
      REQUIRE(records.back().number >= newest);
      newest = records.back().number;
    }
  }
  writer.join();
  CHECK(log.Snapshot().back() == Forward(4999));
}

}  // namespace pipework
