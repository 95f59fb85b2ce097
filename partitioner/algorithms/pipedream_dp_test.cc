#include "partitioner/algorithms/pipedream_dp.h"

#include <catch2/catch.hpp>

#include "partitioner/algorithms/brute_force.h"

namespace pipework {
namespace {

using Cuts = std::vector<StageCut>;
using List = std::vector<double>;

std::string Text(const Cuts& cuts) {
  std::string text;
  for (const StageCut& cut : cuts) {
    text += "(" + std::to_string(cut.first) + "," + std::to_string(cut.last) +
            ")x" + std::to_string(cut.replicas) + " ";
  }
  return text;
}

Partition Solve(List T, List a, List w, std::vector<Level> levels) {
  PartitionInput input;
  input.layer_seconds = std::move(T);
  input.cut_bytes = std::move(a);
  input.weight_bytes = std::move(w);
  input.levels = std::move(levels);
  input.cost_model = *FindCostModel("paper");
  const absl::StatusOr<Partition> partition = PipedreamDp(input);
  REQUIRE(partition.ok());
  return *partition;
}

// The table of section 1.3 of algorithms, made by an exact rational program.
TEST_CASE("pipedream_dp: the golden partitions on one level") {
  Partition partition = Solve({4, 4, 4, 2, 1}, {8, 4, 2, 1, 1},
                              {1, 1, 1, 40, 20}, {{4, {10, 0}}});
  CHECK(partition.seconds == 4);
  CHECK(Text(partition.stages) == "(0,2)x3 (3,4)x1 ");

  partition = Solve(List(8, 2), List(8, 1), List(8, 1), {{4, {10, 0}}});
  CHECK(partition.seconds == 4);
  CHECK(Text(partition.stages) == "(0,7)x4 ");

  partition = Solve({3, 3, 3, 3}, {50, 50, 50, 1}, List(4, 1), {{4, {10, 0}}});
  CHECK(partition.seconds == 3);
  CHECK(Text(partition.stages) == "(0,3)x4 ");

  partition = Solve({5, 1, 1, 5}, List(4, 1), List(4, 100), {{2, {1, 0}}});
  CHECK(partition.seconds == 6);
  CHECK(Text(partition.stages) == "(0,1)x1 (2,3)x1 ");
}

TEST_CASE(
    "pipedream_dp: the golden partitions on two levels, and their expansion") {
  Partition partition = Solve({4, 4, 4, 2, 1}, {8, 4, 2, 1, 1},
                              {1, 1, 1, 40, 20}, {{2, {20, 0}}, {2, {5, 0}}});
  CHECK(partition.seconds == 4);
  CHECK(Text(partition.stages) == "(0,1)x1 (2,4)x1 ");
  CHECK(Text(partition.workers) == "(0,1)x2 (2,4)x2 ");

  partition =
      Solve(List(8, 2), List(8, 1), List(8, 1), {{4, {10, 0}}, {2, {2, 0}}});
  CHECK(partition.seconds == 2);
  CHECK(Text(partition.stages) == "(0,3)x1 (4,7)x1 ");
  CHECK(Text(partition.workers) == "(0,3)x4 (4,7)x4 ");
}

TEST_CASE("pipedream_dp: ties are broken in every cell, not at the end") {
  const Partition partition =
      Solve({1, 1, 3}, List(3, 1), {8, 7, 10}, {{4, {10, 0}}});
  CHECK(partition.seconds == 1.5);
  CHECK(Text(partition.stages) == "(0,0)x1 (1,1)x1 (2,2)x2 ");
}

TEST_CASE("pipedream_dp: equals brute force over all cuts and replicas") {
  for (const char* name : {"paper", "pipework"}) {
    const CostModel* model = *FindCostModel(name);
    for (uint32_t seed = 0; seed < 300; ++seed) {
      const int layers = 1 + seed % 6;
      const int workers = 1 + (seed / 6) % 5;
      PartitionInput input = testing::RandomInput(seed, layers, workers, model);
      const absl::StatusOr<Partition> partition = PipedreamDp(input);
      REQUIRE(partition.ok());
      CAPTURE(name, seed, Text(partition->stages));
      CHECK(partition->seconds == Approx(testing::BestSeconds(input)));
      CHECK(partition->seconds ==
            Approx(testing::SecondsOf(input, partition->stages)));
      int used = 0;
      for (const StageCut& stage : partition->workers) used += stage.replicas;
      CHECK(used == workers);
    }
  }
}

// Zero-cost layers once left the last stages empty, and uneven counts dropped
// the layers that were left over.
TEST_CASE(
    "pipedream_dp: every layer is in one stage, also where layers cost "
    "nothing") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    PartitionInput input = testing::RandomInput(
        seed, 1 + seed % 16, 1 + seed % 7, *FindCostModel("paper"));
    for (size_t l = 0; l < input.layer_seconds.size(); ++l) {
      if ((seed + l) % 3 != 0) input.layer_seconds[l] = 0;
    }
    const absl::StatusOr<Partition> partition = PipedreamDp(input);
    REQUIRE(partition.ok());
    int next = 0;
    for (const StageCut& stage : partition->workers) {
      CHECK(stage.first == next);
      CHECK(stage.last >= stage.first);
      CHECK(stage.replicas >= 1);
      next = stage.last + 1;
    }
    CHECK(next == input.layers());
  }
}

TEST_CASE(
    "pipedream_dp: more bandwidth never makes the best partition slower") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    PartitionInput input =
        testing::RandomInput(seed, 6, 4, *FindCostModel("paper"));
    double last = 1e9;
    for (const double bandwidth : {0.5, 1.0, 3.0, 10.0, 100.0}) {
      input.levels[0].link.bytes_per_second = bandwidth;
      const double seconds = PipedreamDp(input)->seconds;
      CHECK(seconds <= last);
      last = seconds;
    }
  }
}

TEST_CASE("pipedream_dp: a memory limit forbids parts, and may leave nothing") {
  PartitionInput input =
      testing::RandomInput(1, 6, 3, *FindCostModel("pipework"));
  input.fits = [](int first, int last, int, int) { return last - first < 3; };
  const absl::StatusOr<Partition> partition = PipedreamDp(input);
  REQUIRE(partition.ok());
  CHECK(partition->seconds == Approx(testing::BestSeconds(input)));
  CHECK(partition->stages.size() >= 2);
  input.fits = [](int, int, int, int) { return false; };
  CHECK(PipedreamDp(input).status().code() ==
        absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("pipedream_dp: input that makes no sense is refused") {
  PartitionInput input = testing::RandomInput(1, 3, 2, *FindCostModel("paper"));
  PartitionInput broken = input;
  broken.layer_seconds.clear();
  CHECK_FALSE(PipedreamDp(broken).ok());
  broken = input;
  broken.weight_bytes.pop_back();
  CHECK_FALSE(PipedreamDp(broken).ok());
  broken = input;
  broken.layer_seconds[1] = -1;
  CHECK_FALSE(PipedreamDp(broken).ok());
  broken = input;
  broken.levels.clear();
  CHECK_FALSE(PipedreamDp(broken).ok());
  broken = input;
  broken.stages = 2;
  CHECK_FALSE(PipedreamDp(broken).ok());
}

}  // namespace
}  // namespace pipework
