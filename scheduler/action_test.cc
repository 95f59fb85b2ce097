#include "scheduler/action.h"

#include <catch2/catch.hpp>

namespace pipework {
namespace {

TEST_CASE("action: every letter is read back as it was written") {
  for (const char* text :
       {"F3", "B3", "W3", "U0", "A12", "R3", "E7", ">F3@2", "<F3@0", ">E3@1",
        "<E3@1", ">B3@1", "<B3@4", "D", "S", "F3.1", ">F3.1@2"}) {
    CAPTURE(text);
    const absl::StatusOr<Action> action = ParseAction(text);
    REQUIRE(action.ok());
    CHECK(ToString(*action) == text);
  }
}

TEST_CASE(
    "action: in its row a transfer names the other end only over stages") {
  const Action send = *ParseAction(">F3@2");
  CHECK(ToString(send, StageId{1}) == ">F3");
  CHECK(ToString(send, StageId{0}) == ">F3@2");
  const Action gradient = *ParseAction("<B3@2");
  CHECK(ToString(gradient, StageId{1}) == "<B3");
  CHECK(ToString(*ParseAction(">B3@2"), StageId{3}) == ">B3");
  CHECK(ToString(*ParseAction("<F3@2"), StageId{3}) == "<F3");
}

TEST_CASE("action: what is no action is refused and shown") {
  for (const char* text :
       {"", "F", "F-1", "F+1", "F 1", "3F", "X3", ">D", "D3", "F3@1", ">F3@",
        "F3.", "F99999999999999999999", "<W3", "f3"}) {
    CAPTURE(text);
    const absl::StatusOr<Action> action = ParseAction(text);
    REQUIRE_FALSE(action.ok());
    CHECK(action.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(action.status().message())
              .find("\"" + std::string(text) + "\"") != std::string::npos);
  }
}

}  // namespace
}  // namespace pipework
