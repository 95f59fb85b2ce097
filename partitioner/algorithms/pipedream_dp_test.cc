#include "partitioner/algorithms/pipedream_dp.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <tuple>

#include "partitioner/algorithms/brute_force.h"
#include "partitioner/algorithms/lattice.h"

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

int Workers(const Cuts& cuts) {
  int workers = 0;
  for (const StageCut& cut : cuts) workers += cut.replicas;
  return workers;
}

// A random small input: a chain or a graph, on one to three levels.
PartitionInput SmallInput(uint32_t seed, const char* model, int levels,
                          bool graph) {
  const int layers = 1 + seed % (levels == 1 ? 5 : 4);
  const int workers = 1 + (seed / 6) % (levels == 1 ? 5 : 3);
  PartitionInput input =
      graph
          ? testing::RandomGraphInput(seed, std::min(layers, 4), workers,
                                      *FindCostModel(model))
          : testing::RandomInput(seed, layers, workers, *FindCostModel(model));
  for (int k = 1; k < levels; ++k) {
    input.levels.push_back({1 + static_cast<int>(seed / 18 + k) % (4 - k),
                            {0.5 + (seed + k) % 7, 0.125 * (seed % 3)}});
  }
  return input;
}

// Checks `input` against brute force, and what it says of itself.
void CheckBest(const PartitionInput& input) {
  const double best = testing::BestSeconds(input);
  const absl::StatusOr<Partition> partition = PipedreamDp(input);
  if (!partition.ok()) {
    CHECK(partition.status().code() == absl::StatusCode::kFailedPrecondition);
    CHECK(best == std::numeric_limits<double>::infinity());
    return;
  }
  CAPTURE(Text(partition->stages), Text(partition->workers));
  CHECK(partition->seconds == Approx(best));
  if (input.levels.size() == 1) {
    CHECK(partition->seconds ==
          Approx(testing::SecondsOf(input, partition->stages)));
    CHECK(partition->stages == partition->workers);
  }
  const int used = Workers(partition->workers);
  CHECK((input.fewer_workers ? used <= input.workers()
                             : used == input.workers()));
  int next = 0;
  for (const StageCut& stage : partition->workers) {
    CHECK(stage.first == next);
    CHECK(stage.last >= stage.first);
    CHECK((!input.straight || stage.replicas == 1));
    next = stage.last + 1;
  }
  CHECK(next == input.layers());
  if (input.max_stages > 0) {
    CHECK(static_cast<int>(partition->workers.size()) <= input.max_stages);
  }
}

TEST_CASE("pipedream_dp: equals brute force over all cuts and replicas") {
  for (const char* name : {"paper", "pipework"}) {
    for (const int levels : {1, 2, 3}) {
      for (const bool graph : {false, true}) {
        for (uint32_t seed = 0; seed < (levels < 3 ? 720u : 360u); ++seed) {
          CAPTURE(name, levels, graph, seed);
          CheckBest(SmallInput(seed, name, levels, graph));
        }
      }
    }
  }
}

TEST_CASE(
    "pipedream_dp: straight, idle workers, limits of stages and memory equal "
    "brute force, alone and together") {
  for (const char* name : {"paper", "pipework"}) {
    for (const int levels : {1, 2}) {
      for (const bool graph : {false, true}) {
        for (uint32_t seed = 0; seed < 480; ++seed) {
          PartitionInput input = SmallInput(seed, name, levels, graph);
          const uint32_t choice = 1 + seed % 15;
          input.straight = (choice & 1) != 0;
          input.fewer_workers = (choice & 2) != 0;
          if ((choice & 4) != 0) input.max_stages = 1 + (seed / 15) % 3;
          if ((choice & 8) != 0) input.fits = testing::RandomFits(seed);
          CAPTURE(name, levels, graph, seed, choice);
          CheckBest(input);
        }
      }
    }
  }
}

// What is left out for speed must not change which of equal partitions is
// found.
TEST_CASE(
    "pipedream_dp: finds the stages of the plain recurrences, ties included") {
  for (const char* name : {"paper", "pipework"}) {
    for (const int levels : {1, 2, 3}) {
      for (uint32_t seed = 0; seed < 240; ++seed) {
        PartitionInput input = SmallInput(seed, name, levels, seed % 2 == 1);
        CAPTURE(name, levels, seed);
        Partition plain = testing::PlainRecurrences(input);
        CHECK(Text(PipedreamDp(input)->workers) == Text(plain.workers));
        CHECK(PipedreamDp(input)->seconds == plain.seconds);
        CHECK(Text(PipedreamDp(input)->stages) == Text(plain.stages));
      }
      // Enough states for a coarse partition to set a limit.
      for (uint32_t seed = 0; seed < 8; ++seed) {
        PartitionInput input =
            seed % 2 == 0
                ? testing::RandomInput(seed, 40, 3, *FindCostModel(name))
                : testing::RandomGraphInput(seed, 8, 3, *FindCostModel(name));
        for (int k = 1; k < levels; ++k) {
          input.levels.push_back({2, {0.5 + seed, 0.125}});
        }
        CAPTURE(name, levels, seed, input.layers());
        const Partition plain = testing::PlainRecurrences(input);
        CHECK(PipedreamDp(input)->seconds == plain.seconds);
        CHECK(Text(PipedreamDp(input)->workers) == Text(plain.workers));
      }
    }
  }
}

// One level as the comment in pipedream_dp.cc has it, cell by cell, with memory
// and idle workers.
Cuts PlainLevel(const PartitionInput& input, double* seconds) {
  struct Cell {
    double seconds = std::numeric_limits<double>::infinity();
    int stages = 0;
    int workers = 0;
    int s = -1;
    int m = 0;
  };
  const Lattice lattice(input);
  const int N = lattice.size();
  const int M = input.workers();
  const Link& link = input.levels[0].link;
  std::vector<std::vector<Cell>> A(N + 1, std::vector<Cell>(M + 1));
  for (int m = 0; m <= (input.fewer_workers ? M : 0); ++m) A[0][m].seconds = 0;
  for (int j = 1; j <= N; ++j) {
    for (const int s : lattice.Inside(j)) {
      const double cut =
          s > 0 ? input.cost_model->CutSeconds(lattice.CutBytes(s), link) : 0;
      for (int m = 1; m <= (input.straight ? 1 : M); ++m) {
        const double t =
            input.cost_model->StageSeconds(lattice.Load(s, j), m, link);
        for (int left = 0; left + m <= M; ++left) {
          const Cell& before = A[s][left];
          const Cell next = {std::max({before.seconds, cut, t}),
                             before.stages + 1, before.workers + m, s, m};
          Cell& best = A[j][left + m];
          if (std::tie(next.seconds, next.stages, next.workers) >=
              std::tie(best.seconds, best.stages, best.workers)) {
            continue;
          }
          if (!input.fits || input.fits(s, j - 1, left, m)) best = next;
        }
      }
    }
  }
  *seconds = A[N][M].seconds;
  Cuts cuts;
  for (int j = N, m = M; *seconds < 1e300 && j > 0;) {
    const Cell& cell = A[j][m];
    cuts.insert(cuts.begin(), lattice.Cut(cell.s, j, cell.m));
    j = cell.s;
    m -= cell.m;
  }
  return cuts;
}

// Enough workers for blocks of them to be passed over.
TEST_CASE(
    "pipedream_dp: many workers in one level equal the plain recurrence") {
  for (const char* name : {"paper", "pipework", "public_code"}) {
    for (uint32_t seed = 0; seed < 160; ++seed) {
      const int layers = 2 + seed % 37;
      const int workers = 20 + seed * 7 % 83;
      PartitionInput input = seed % 4 == 0
                                 ? testing::RandomGraphInput(
                                       seed, 6, workers, *FindCostModel(name))
                                 : testing::RandomInput(seed, layers, workers,
                                                        *FindCostModel(name));
      if (seed % 5 == 0) {  // many partitions are equal
        std::vector<double>& seconds =
            seed % 4 == 0 ? input.state_seconds : input.layer_seconds;
        std::fill(seconds.begin(), seconds.end(), seed % 4 == 0 ? 0 : 3);
      }
      if (seed % 7 == 1) input.weight_bytes.assign(layers, 0);
      input.fewer_workers = seed % 3 == 1;
      if (seed % 8 == 3) input.straight = input.fewer_workers = true;
      if (seed % 6 >= 4) input.fits = testing::RandomFits(seed);
      if (seed % 6 == 4) {
        input.fits = [seed](int first, int last, int before, int replicas) {
          return (first * 5 + last * 3 + before + replicas + seed) % 7 != 0;
        };
      }
      CAPTURE(name, seed, workers, input.layers());
      double seconds = 0;
      const Cuts plain = PlainLevel(input, &seconds);
      const absl::StatusOr<Partition> partition = PipedreamDp(input);
      REQUIRE(partition.ok() == (seconds < 1e300));
      if (!partition.ok()) continue;
      CHECK(partition->seconds == seconds);
      CHECK(Text(partition->workers) == Text(plain));
    }
  }
}

TEST_CASE(
    "pipedream_dp: where some may be idle, more workers never cost more") {
  for (const char* name : {"paper", "pipework"}) {
    for (const int levels : {1, 2}) {
      for (uint32_t seed = 0; seed < 60; ++seed) {
        PartitionInput input = SmallInput(seed, name, levels, seed % 2 == 0);
        input.fewer_workers = true;
        for (Level& level : input.levels) {
          double last = std::numeric_limits<double>::infinity();
          for (level.components = 1; level.components <= 6;
               ++level.components) {
            const absl::StatusOr<Partition> partition = PipedreamDp(input);
            REQUIRE(partition.ok());
            CAPTURE(name, levels, seed, level.components);
            CHECK(partition->seconds <= last);
            last = partition->seconds;
          }
          level.components = 2;
        }
      }
    }
  }
}

TEST_CASE("pipedream_dp: memory on three levels equals brute force") {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    PartitionInput input =
        seed % 2 == 0
            ? testing::RandomInput(seed, 4, 2, *FindCostModel("pipework"))
            : testing::RandomGraphInput(seed, 3, 2, *FindCostModel("pipework"));
    // The outermost replicates for nothing, the one below had better not.
    input.levels.push_back({2, {1, 0.125}});
    input.levels.push_back({2 + static_cast<int>(seed / 2 % 2), {100, 0}});
    // Depends on what lies before alone, or on all three together.
    input.fits = testing::RandomFits(seed);
    if (seed % 3 == 0) {
      input.fits = [seed](int first, int last, int before, int replicas) {
        return (first + 2 * last + 3 * before + replicas + seed) % 4 != 0;
      };
    }
    CAPTURE(seed);
    CheckBest(input);
  }
}

// The partition that sets the limit is here the best one itself, and the outer
// levels replicate whatever the innermost one does.
TEST_CASE("pipedream_dp: many equal layers are spread evenly") {
  for (const std::vector<int>& components :
       std::vector<std::vector<int>>{{4}, {2, 2}, {4, 2}, {2, 4}, {2, 2, 2}}) {
    PartitionInput input =
        testing::RandomInput(1, 64, 1, *FindCostModel("paper"));
    input.layer_seconds.assign(64, 0.75);
    input.weight_bytes.assign(64, 1e9);
    input.cut_bytes.assign(64, 0);
    input.levels.clear();
    for (const int m : components) {
      input.levels.push_back({m, {input.levels.empty() ? 1e3 : 0.0, 0}});
    }
    const absl::StatusOr<Partition> partition = PipedreamDp(input);
    REQUIRE(partition.ok());
    CHECK(partition->seconds == 64 * 0.75 / input.workers());
    CHECK(static_cast<int>(partition->workers.size()) == components[0]);
    CHECK(Text(partition->workers) ==
          Text(testing::PlainRecurrences(input).workers));
  }
}

TEST_CASE("pipedream_dp: few stages count before few workers") {
  PartitionInput input =
      testing::RandomInput(1, 3, 4, *FindCostModel("pipework"));
  input.layer_seconds = {2.1, 1.1, 1.1};
  input.weight_bytes = {100, 1.5, 1.5};
  input.cut_bytes = {0, 0, 0};
  input.levels[0].link = {1, 0};
  input.fewer_workers = true;
  // Three stages on three workers are as fast.
  CHECK(Text(PipedreamDp(input)->workers) == "(0,0)x1 (1,2)x3 ");
}

TEST_CASE("pipedream_dp: between equal partitions fewer workers win") {
  PartitionInput input = testing::RandomInput(1, 2, 4, *FindCostModel("paper"));
  input.layer_seconds = {0, 0};
  input.weight_bytes = {0, 0};
  input.fewer_workers = true;
  CHECK(Text(PipedreamDp(input)->workers) == "(0,1)x1 ");
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

TEST_CASE("pipedream_dp: layers that take no time at all, on any levels") {
  for (const char* name : {"paper", "pipework"}) {
    for (const int layers : {1, 5, 40}) {
      for (const std::vector<int>& components :
           std::vector<std::vector<int>>{{1}, {40}, {3, 2}, {2, 1, 2}}) {
        PartitionInput input =
            testing::RandomInput(1, layers, 1, *FindCostModel(name));
        input.layer_seconds.assign(layers, 0);
        input.weight_bytes.assign(layers, 0);
        input.cut_bytes.assign(layers, 0);
        input.levels.clear();
        for (const int m : components) input.levels.push_back({m, {}});
        CAPTURE(name, layers, components.size());
        const absl::StatusOr<Partition> partition = PipedreamDp(input);
        REQUIRE(partition.ok());
        CHECK(partition->seconds == 0);
        CHECK(Text(partition->workers) ==
              Text(testing::PlainRecurrences(input).workers));
        // Nor does a stage, unless it is replicated on the innermost level.
        input.weight_bytes.assign(layers, 1);
        input.levels[0].link = {1, 0};
        CHECK(Text(PipedreamDp(input)->workers) ==
              Text(testing::PlainRecurrences(input).workers));
      }
    }
  }
}

TEST_CASE("pipedream_dp: numbers that overflow are refused, not computed") {
  const PartitionInput input =
      testing::RandomInput(1, 3, 2, *FindCostModel("pipework"));
  PartitionInput broken = input;
  broken.layer_seconds = {1e308, 1e308, 1};
  CHECK(PipedreamDp(broken).status().message() ==
        "partitioner: a cost of layer 0 is 1e+308, expected a number from 0 to "
        "1e+100");
  for (const double value : {-1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    broken = input;
    broken.levels[0].link.bytes_per_second = value;
    CHECK_FALSE(PipedreamDp(broken).ok());
    broken = input;
    broken.levels[0].link.latency_seconds = value;
    CHECK_FALSE(PipedreamDp(broken).ok());
  }
  broken = input;
  broken.levels.assign(8, {65536, {}});
  CHECK(PipedreamDp(broken).status().code() ==
        absl::StatusCode::kInvalidArgument);
  // A link so slow that a transfer never ends.
  broken = input;
  broken.levels[0].link.bytes_per_second = 1e-300;
  broken.layer_seconds.assign(3, 1e100);
  broken.weight_bytes.assign(3, 1e100);
  broken.cut_bytes.assign(3, 1e100);
  const absl::StatusOr<Partition> slow = PipedreamDp(broken);
  CHECK((!slow.ok() || slow->seconds <= 3e100));
}

TEST_CASE("pipedream_dp: a table beyond memory is refused with a remedy") {
  PartitionInput input =
      testing::RandomInput(1, 3000, 512, *FindCostModel("pipework"));
  input.levels.push_back({2, {}});
  const absl::Status refused = PipedreamDp(input).status();
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("fewer devices in an inner level"));
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

  PartitionInput graph =
      testing::RandomGraphInput(1, 3, 2, *FindCostModel("paper"));
  broken = graph;
  broken.predecessors.back().push_back(broken.layers() - 1);
  CHECK(PipedreamDp(broken).status().code() ==
        absl::StatusCode::kInvalidArgument);
  broken = graph;
  broken.state_seconds.pop_back();
  CHECK_FALSE(PipedreamDp(broken).ok());
}

TEST_CASE(
    "pipedream_dp: a straight pipeline longer than the layers names both") {
  PartitionInput input = testing::RandomInput(1, 3, 5, *FindCostModel("paper"));
  input.straight = true;
  CHECK(PipedreamDp(input).status().message() ==
        "plan: the number of layers of a straight pipeline is 3, expected at "
        "least 5, the number of devices; use fewer devices");
  input.fewer_workers = true;
  CHECK(PipedreamDp(input)->stages.size() <= 3);
}

}  // namespace
}  // namespace pipework
