// Each pass, with a before and an after.
#include <catch2/catch.hpp>

#include "absl/strings/str_split.h"
#include "scheduler/passes/assign_versions.h"
#include "scheduler/passes/insert_all_reduces.h"
#include "scheduler/passes/insert_drain.h"
#include "scheduler/passes/insert_releases.h"
#include "scheduler/passes/insert_transfers.h"
#include "scheduler/testing/programs.h"
#include "scheduler/versioning/stash.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::RowText;
using testing::SegmentOf;

// Rows as text, by stage, then replica.
Program ProgramOf(std::vector<int> replicas, std::vector<std::string> rows) {
  Program program;
  program.schedule = "1f1b";
  program.weights = "stash";
  program.shape = ChainOf(std::move(replicas));
  program.segment = SegmentOf(4);
  size_t next = 0;
  for (int s = 0; s < program.shape.stages(); ++s) {
    for (int q = 0; q < program.shape.replicas[s]; ++q) {
      Row row{StageId{s}, ReplicaId{q}, {}};
      const std::string& text = rows[next++];
      for (const absl::string_view word :
           absl::StrSplit(text, ' ', absl::SkipEmpty())) {
        row.actions.push_back(*ParseAction(word));
      }
      program.rows.push_back(std::move(row));
    }
  }
  return program;
}

std::string VersionsText(const Program& program, int stage) {
  std::string text;
  for (const Action& action :
       program.row(StageId{stage}, ReplicaId{0}).actions) {
    text +=
        ToString(action) + ":" + std::to_string(action.version.value()) + " ";
  }
  return text;
}

TEST_CASE(
    "assign_versions: newest in the forward, the same again in the backward") {
  Program program = ProgramOf({1, 1}, {"F0 F1 B0 U0 F2 B1 U1", "F0 B0 U0 F1"});
  program.segment.first_versions = {0, 7};
  for (Action& action : program.rows[1].actions) {
    if (action.kind == ActionKind::kUpdate) action.number = 7;
  }
  AssignVersions(*Stashing(), &program);
  CHECK(VersionsText(program, 0) == "F0:0 F1:0 B0:0 U0:1 F2:1 B1:0 U1:2 ");
  CHECK(VersionsText(program, 1) == "F0:7 B0:7 U7:8 F1:8 ");
}

TEST_CASE("insert_transfers: receives right before, sends right after") {
  Program program = ProgramOf({1, 2, 1}, {"F1 B1 U1", "", "F1 B1 U1", "F1 B1"});
  InsertTransfers(&program);
  CHECK(RowText(program, 0) == "F1 >F1 <B1 B1 U1");
  CHECK(RowText(program, 1, 0) == "");
  CHECK(RowText(program, 1, 1) == "<F1 F1 >F1 <B1 B1 >B1 U1");
  CHECK(RowText(program, 2) == "<F1 F1 B1 >B1");
  CHECK(program.rows[0].actions[1].peer_replica == ReplicaId{1});
  CHECK(program.rows[3].actions[0].peer_replica == ReplicaId{1});
}

TEST_CASE(
    "insert_all_reduces: before each update of a stage with replicas only") {
  Program program = ProgramOf({2, 1}, {"F0 B0 U0", "U0", "F0 B0 U0"});
  InsertAllReduces(&program);
  CHECK(RowText(program, 0, 0) == "F0 B0 A0 U0");
  CHECK(RowText(program, 0, 1) == "A0 U0");
  CHECK(RowText(program, 1) == "F0 B0 U0");
}

TEST_CASE("insert_releases: after what the backward sends, before the update") {
  Program program = ProgramOf({1, 1}, {"F0 B0 U0", "F0 B0 >B0@0 A0 U0"});
  InsertReleases(&program);
  CHECK(RowText(program, 0) == "F0 B0 R0 U0");
  CHECK(RowText(program, 1) == "F0 B0 >B0 R0 A0 U0");
}

TEST_CASE("insert_drain: at the end, with a save where one is asked for") {
  Program program = ProgramOf({1}, {"F0 B0 U0"});
  InsertDrain(&program);
  CHECK(RowText(program, 0) == "F0 B0 U0 D");
  CHECK(program.rows[0].actions.back().minibatch == MinibatchId{4});
  program = ProgramOf({1}, {""});
  program.segment.save = true;
  InsertDrain(&program);
  CHECK(RowText(program, 0) == "D S");
  program = ProgramOf({1}, {"E0"});
  program.segment.evaluation = true;
  InsertDrain(&program);
  CHECK(RowText(program, 0) == "E0");
}

}  // namespace
}  // namespace pipework
