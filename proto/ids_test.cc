#include "proto/ids.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/errors.h"
#include "proto/profile.pb.h"
#include "proto/status_macros.h"
#include "proto/text_file.h"

namespace pipework {
namespace {

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

std::string TempFile(const std::string& name) {
  const char* folder = std::getenv("TEST_TMPDIR");
  return std::string(folder == nullptr ? "/tmp" : folder) + "/" + name;
}

}  // namespace

TEST_CASE("ids: kinds do not mix") {
  CHECK(StageId{1} < StageId{2});
  CHECK(StageId{1} == StageId{1});
  CHECK_FALSE((std::is_convertible<StageId, ReplicaId>::value));
  CHECK_FALSE((std::is_convertible<int, StageId>::value));
}

TEST_CASE("status macros: the first error travels") {
  CHECK(*Quarter(8) == 2);
  CHECK(Quarter(6).status().message() == "odd");
}

TEST_CASE("errors: one form, context in front, code and payload kept") {
  absl::Status status = Mismatch("stage 1", "input", "[2]", "[3]", "look up");
  CHECK(status.message() == "stage 1: input is [2], expected [3]; look up");
  CHECK(Mismatch("a", "b", "c", "d").message() == "a: b is c, expected d");
  status.SetPayload("kind", absl::Cord("x"));
  const absl::Status outer = WithContext("job j", status);
  CHECK(outer.code() == absl::StatusCode::kInvalidArgument);
  CHECK(outer.GetPayload("kind").has_value());
}

TEST_CASE("text file: what is written is read; a bad file names its line") {
  v1::Profile profile;
  profile.set_batch(32);
  const std::string path = TempFile("profile.txt");
  REQUIRE(WriteTextFile(path, profile).ok());
  v1::Profile read;
  REQUIRE(ReadTextFile(path, &read).ok());
  CHECK(read.batch() == 32);

  std::ofstream(path) << "batch: 3\nno_such_field: 1\n";
  const absl::Status bad = ReadTextFile(path, &read);
  CHECK(bad.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(bad.message()).find(":2:") != std::string::npos);
  CHECK(ReadTextFile("/nonexistent/x", &read).code() ==
        absl::StatusCode::kNotFound);
  // A folder is no empty message, and an endless file has an end.
  CHECK(ReadTextFile("/", &read).code() == absl::StatusCode::kNotFound);
  CHECK(ReadTextFile("/dev/zero", &read).code() ==
        absl::StatusCode::kInvalidArgument);
}

}  // namespace pipework
