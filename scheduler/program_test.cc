#include "scheduler/program.h"

#include <catch2/catch.hpp>

#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

std::vector<int> Warmups(const PipelineShape& shape) {
  std::vector<int> warmups;
  for (int s = 0; s < shape.stages(); ++s) {
    warmups.push_back(Warmup(shape, StageId{s}));
  }
  return warmups;
}

TEST_CASE("warmup: a smaller in-flight limit shortens every stage as much") {
  CHECK(Warmups(ChainOf({1, 1, 1, 1})) == std::vector<int>{3, 2, 1, 0});
  CHECK(Warmups(ChainOf({1, 1, 1, 1}, 3)) == std::vector<int>{2, 1, 0, 0});
  CHECK(Warmups(ChainOf({1, 1, 1, 1}, 4)) == std::vector<int>{3, 2, 1, 0});
}

TEST_CASE("warmup: with one in flight no stage runs ahead") {
  testing::ForEachShape(4, 4, [](PipelineShape shape) {
    shape.in_flight = 1;
    CHECK(Warmups(shape) == std::vector<int>(shape.replicas.size(), 0));
  });
}

TEST_CASE(
    "warmup: a larger limit deepens stages by their distance from the end") {
  CHECK(Warmups(ChainOf({1, 1, 1, 1}, 7)) == std::vector<int>{6, 4, 2, 0});
  // One stage has nobody to run ahead for.
  CHECK(Warmups(ChainOf({1}, 9)) == std::vector<int>{0});
  CHECK(Warmups(ChainOf({3}, 9)) == std::vector<int>{0});
}

TEST_CASE("warmup: the first stage admits just what the limit says") {
  testing::ForEachShape(4, 3, [](PipelineShape shape) {
    if (shape.stages() == 1) return;
    for (int n = 1; n <= 12; ++n) {
      shape.in_flight = n;
      CHECK(Warmup(shape, StageId{0}) + 1 == n);
    }
  });
}

TEST_CASE("versions: accumulation needs fewer") {
  const PipelineShape shape = ChainOf({1, 1, 1, 1});
  CHECK(Versions(shape, StageId{0}, 1) == 4);
  CHECK(Versions(shape, StageId{0}, 2) == 3);
  CHECK(Versions(shape, StageId{0}, 3) == 2);
  CHECK(Versions(shape, StageId{3}, 3) == 1);
}

TEST_CASE("program: owners and groups of units count through the run") {
  Segment segment = SegmentOf(5);
  segment.first_minibatch = 7;
  segment.first_versions = {4, 7};
  const Program program = MustCompile("1f1b", ChainOf({2, 1}), segment);
  CHECK(program.owner(StageId{0}, 7) == ReplicaId{1});
  CHECK(program.owner(StageId{0}, 8) == ReplicaId{0});
  CHECK(program.updates(StageId{0}) == 3);
  CHECK(program.units_of_update(StageId{0}, 4).begin == 7);
  CHECK(program.units_of_update(StageId{0}, 4).end == 9);
  CHECK(program.units_of_update(StageId{0}, 6).begin == 11);
  CHECK(program.units_of_update(StageId{0}, 6).size() == 1);
  CHECK(program.last_versions() == std::vector<int64_t>{7, 12});
}

TEST_CASE("program: microbatches begin again at replica 0 in each minibatch") {
  Segment segment = SegmentOf(2, 3);
  segment.first_minibatch = 5;
  const Program program = MustCompile("flush", ChainOf({2}), segment);
  CHECK(program.owner(StageId{0}, 15) == ReplicaId{0});
  CHECK(program.owner(StageId{0}, 17) == ReplicaId{0});
  CHECK(program.owner(StageId{0}, 18) == ReplicaId{0});
  CHECK(program.owner(StageId{0}, 19) == ReplicaId{1});
  const Action& last = program.row(StageId{0}, ReplicaId{1}).actions.front();
  CHECK(last.minibatch == MinibatchId{5});
  CHECK(last.microbatch == MicrobatchId{1});
}

TEST_CASE("program: rows print as the papers do, or whole") {
  const Program program = MustCompile("1f1b", ChainOf({2, 1}), SegmentOf(2));
  CHECK(ToString(program) ==
        "s0.r0  F0 B0\n"
        "s0.r1  F1 B1\n"
        "s1     F0 B0 F1 B1\n");
  CHECK(ToString(program, true) ==
        "s0.r0  F0 >F0 <B0 B0 R0 A0 U0 D\n"
        "s0.r1  F1 >F1 <B1 B1 R1 A0 U0 D\n"
        "s1     <F0 F0 B0 >B0 R0 U0 <F1 F1 B1 >B1 R1 U1 D\n");
}

}  // namespace
}  // namespace pipework
