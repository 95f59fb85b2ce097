#include "partitioner/algorithms/pipedream_dp.h"

#include <catch2/catch.hpp>

#include "partitioner/algorithms/brute_force.h"

namespace pipework {
namespace {

using Cuts = std::vector<StageCut>;

std::string Text(const Cuts& cuts) {
  std::string text;
  for (const StageCut& cut : cuts) {
    text += "(" + std::to_string(cut.first) + "," + std::to_string(cut.last) +
            ")x" + std::to_string(cut.replicas) + " ";
  }
  return text;
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
