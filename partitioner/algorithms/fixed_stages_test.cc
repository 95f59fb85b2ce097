#include "partitioner/algorithms/fixed_stages.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <utility>

#include "partitioner/algorithms/brute_force.h"
#include "partitioner/algorithms/lattice.h"
#include "partitioner/algorithms/pipedream_dp.h"

namespace pipework {
namespace {

PartitionInput Equal(int layers, int stages) {
  PartitionInput input;
  input.layer_seconds.assign(layers, 1);
  input.weight_bytes.assign(layers, 1);
  input.cut_bytes.assign(layers, 1);
  input.levels = {{stages, {}}};
  input.cost_model = *FindCostModel("pipework");
  input.stages = stages;
  return input;
}

TEST_CASE(
    "fixed_stages: equals brute force over all partitions of so many stages") {
  for (const char* name : {"paper", "pipework"}) {
    for (uint32_t seed = 0; seed < 300; ++seed) {
      const int layers = 1 + seed % 6;
      const int workers = 1 + (seed / 6) % 5;
      PartitionInput input =
          testing::RandomInput(seed, layers, workers, *FindCostModel(name));
      double best = 1e9;
      for (int stages = 1; stages <= std::min(layers, workers); ++stages) {
        input.stages = stages;
        const absl::StatusOr<Partition> partition = FixedStages(input);
        REQUIRE(partition.ok());
        CAPTURE(name, seed, stages);
        CHECK(static_cast<int>(partition->stages.size()) == stages);
        CHECK(partition->seconds == Approx(testing::BestSeconds(input)));
        CHECK(partition->seconds ==
              Approx(testing::SecondsOf(input, partition->stages)));
        best = std::min(best, partition->seconds);
      }
      input.stages = 0;
      CHECK(best == Approx(PipedreamDp(input)->seconds));
    }
  }
}

TEST_CASE(
    "fixed_stages: graphs, pins, limits and idle workers equal brute force") {
  for (const char* name : {"paper", "pipework"}) {
    for (uint32_t seed = 0; seed < 600; ++seed) {
      const int layers = 1 + seed % 4;
      const int workers = 1 + (seed / 4) % 5;
      PartitionInput input =
          seed % 3 == 0 ? testing::RandomInput(seed, layers, workers,
                                               *FindCostModel(name))
                        : testing::RandomGraphInput(seed, layers, workers,
                                                    *FindCostModel(name));
      if ((seed & 1) != 0) input.fits = testing::RandomFits(seed);
      input.fewer_workers = (seed & 2) != 0;
      input.straight = seed % 5 == 0;
      for (int stages = 1; stages <= std::min(layers, workers); ++stages) {
        input.stages = stages;
        CAPTURE(name, seed, stages);
        const double best = testing::BestSeconds(input);
        const absl::StatusOr<Partition> partition = FixedStages(input);
        if (!partition.ok()) {
          CHECK(partition.status().code() ==
                absl::StatusCode::kFailedPrecondition);
          CHECK(best > 1e9);
          continue;
        }
        CHECK(partition->seconds == Approx(best));
        CHECK(partition->seconds ==
              Approx(testing::SecondsOf(input, partition->stages)));
        CHECK(static_cast<int>(partition->stages.size()) == stages);
      }
    }
  }
}

TEST_CASE("fixed_stages: pinned replicas are kept, and the cuts are the best") {
  const std::vector<int> pins[] = {{1, 2, 1}, {3, 1}, {1, 1, 1, 1}, {4}};
  for (uint32_t seed = 0; seed < 80; ++seed) {
    PartitionInput input =
        testing::RandomInput(seed, 6, 4, *FindCostModel("pipework"));
    input.replicas = pins[seed % 4];
    input.stages = static_cast<int>(input.replicas.size());
    double best = 1e9;
    testing::ForEachPartition(input, [&](const std::vector<StageCut>& stages) {
      std::vector<int> replicas;
      for (const StageCut& stage : stages) replicas.push_back(stage.replicas);
      if (replicas == input.replicas) {
        best = std::min(best, testing::SecondsOf(input, stages));
      }
    });
    const absl::StatusOr<Partition> partition = FixedStages(input);
    REQUIRE(partition.ok());
    CAPTURE(seed);
    CHECK(partition->seconds == Approx(best));
    for (int s = 0; s < input.stages; ++s) {
      CHECK(partition->stages[s].replicas == input.replicas[s]);
    }
  }
}

// Enough layers for a coarse partition to set a limit.
TEST_CASE("fixed_stages: many layers on many workers equal pipedream_dp") {
  for (const char* name : {"paper", "pipework"}) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
      PartitionInput input =
          testing::RandomInput(seed, 120, 12, *FindCostModel(name));
      double best = 1e9;
      for (int stages = 1; stages <= 12; ++stages) {
        input.stages = stages;
        const absl::StatusOr<Partition> partition = FixedStages(input);
        REQUIRE(partition.ok());
        CHECK(static_cast<int>(partition->stages.size()) == stages);
        best = std::min(best, partition->seconds);
      }
      input.stages = 0;
      CAPTURE(name, seed);
      CHECK(best == Approx(PipedreamDp(input)->seconds));
    }
  }
}

// A layer count that the stage count does not divide once lost the layers left
// over (30 layers became 28), or heaped them on the last stage.
TEST_CASE(
    "fixed_stages: equal layers spread over stages that differ by one at "
    "most") {
  for (int layers = 1; layers <= 64; ++layers) {
    for (int stages = 1; stages <= std::min(16, layers); ++stages) {
      const absl::StatusOr<Partition> partition =
          FixedStages(Equal(layers, stages));
      REQUIRE(partition.ok());
      CAPTURE(layers, stages);
      int next = 0;
      int most = 0;
      int least = layers;
      for (const StageCut& stage : partition->stages) {
        CHECK(stage.first == next);
        next = stage.last + 1;
        most = std::max(most, next - stage.first);
        least = std::min(least, next - stage.first);
      }
      CHECK(next == layers);
      CHECK(least >= 1);
      CHECK(most - least <= 1);
    }
  }
}

TEST_CASE(
    "fixed_stages: between equal times stages are even in seconds first") {
  PartitionInput input = Equal(5, 3);
  input.layer_seconds = {5, 1, 1, 1, 3};
  input.weight_bytes.assign(5, 0);
  const absl::StatusOr<Partition> partition = FixedStages(input);
  REQUIRE(partition.ok());
  CHECK(partition->stages[2].first == 4);
}

// Layers without cost (activations, reshapes) once made stages without layers.
TEST_CASE("fixed_stages: no stage is empty where layers cost nothing") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const int layers = 2 + seed % 20;
    const int stages = 1 + seed % std::min(8, layers);
    PartitionInput input = Equal(layers, stages);
    for (int l = 0; l < layers; ++l) {
      input.layer_seconds[l] = (seed * 7 + l * 13) % 4 == 0 ? 1 + l % 3 : 0;
    }
    const absl::StatusOr<Partition> partition = FixedStages(input);
    REQUIRE(partition.ok());
    int next = 0;
    for (const StageCut& stage : partition->stages) {
      CHECK(stage.first == next);
      CHECK(stage.last >= stage.first);
      next = stage.last + 1;
    }
    CHECK(next == layers);
  }
}

// Seconds by the recurrence in fixed_stages.cc, cell by cell.
double PlainSeconds(const PartitionInput& input) {
  const Lattice lattice(input);
  const int N = lattice.size();
  const int M = input.workers();
  const Link& link = input.levels[0].link;
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> last(N + 1,
                                        std::vector<double>(M + 1, infinity));
  for (int m = 0; m <= (input.fewer_workers ? M : 0); ++m) last[0][m] = 0;
  for (int k = 1; k <= input.stages; ++k) {
    std::vector<std::vector<double>> next(N + 1,
                                          std::vector<double>(M + 1, infinity));
    for (int j = 1; j <= N; ++j) {
      for (const int s : lattice.Inside(j)) {
        const double cut =
            s > 0 ? input.cost_model->CutSeconds(lattice.CutBytes(s), link) : 0;
        for (int m = 1; m <= M; ++m) {
          if (!input.replicas.empty() && input.replicas[k - 1] != m) continue;
          const double t =
              input.cost_model->StageSeconds(lattice.Load(s, j), m, link);
          for (int left = 0; left + m <= M; ++left) {
            if (last[s][left] == infinity) continue;
            if (input.fits && !input.fits(s, j - 1, left, m)) continue;
            next[j][left + m] =
                std::min(next[j][left + m], std::max({last[s][left], cut, t}));
          }
        }
      }
    }
    last = std::move(next);
  }
  return last[N][M];
}

TEST_CASE("fixed_stages: many stages on many workers equal the recurrence") {
  for (const char* name : {"paper", "pipework"}) {
    for (uint32_t seed = 0; seed < 60; ++seed) {
      const int layers = 8 + seed % 13;
      const int workers = 8 + seed * 5 % 29;
      PartitionInput input =
          testing::RandomInput(seed, layers, workers, *FindCostModel(name));
      input.stages = 1 + seed * 3 % 8;
      if (seed % 6 == 0) input.layer_seconds.assign(layers, 0);
      if (seed % 4 == 1) {
        input.layer_seconds[layers / 2] = 300;  // bounds all others
      }
      input.fewer_workers = seed % 5 == 2;
      if (seed % 3 == 1) input.fits = testing::RandomFits(seed);
      if (seed % 7 == 3) {
        input.replicas.assign(input.stages, 1);
        input.replicas[seed % input.stages] += workers - input.stages;
      }
      CAPTURE(name, seed, layers, workers, input.stages);
      const double plain = PlainSeconds(input);
      const absl::StatusOr<Partition> partition = FixedStages(input);
      REQUIRE(partition.ok() == (plain < 1e300));
      if (!partition.ok()) continue;
      CHECK(partition->seconds == Approx(plain).epsilon(1e-11));
      CHECK(partition->seconds ==
            Approx(testing::SecondsOf(input, partition->stages)));
    }
  }
}

TEST_CASE(
    "fixed_stages: more stages than layers or devices names both numbers") {
  PartitionInput input = Equal(4, 5);
  CHECK(FixedStages(input).status().message() ==
        "plan: the number of stages is 5, expected at most 4, the number of "
        "layers");
  input = Equal(8, 5);
  input.levels[0].components = 3;
  CHECK(FixedStages(input).status().message() ==
        "plan: the number of stages is 5, expected at most 3, the number of "
        "devices");
}

TEST_CASE("fixed_stages: a memory limit is told how many workers come before") {
  PartitionInput input =
      testing::RandomInput(3, 6, 4, *FindCostModel("pipework"));
  input.stages = 3;
  input.fits = [](int first, int last, int before, int) {
    return before > 0 || last - first < 1;
  };
  const absl::StatusOr<Partition> partition = FixedStages(input);
  REQUIRE(partition.ok());
  CHECK(partition->stages[0].last == 0);
  CHECK(partition->seconds == Approx(testing::BestSeconds(input)));
}

}  // namespace
}  // namespace pipework
