#include "partitioner/algorithms/ways.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "partitioner/algorithms/brute_force.h"

namespace pipework {
namespace {

Pipelines All(const PartitionInput& input, const Lattice& lattice) {
  const Link& link = input.levels[0].link;
  Pipelines all;
  all.end = lattice.size();
  all.workers = input.workers();
  all.widest = input.straight ? 1 : all.workers;
  all.stages = input.stages;
  all.replicas = input.replicas;
  all.idle = input.fewer_workers;
  all.stage_seconds = [&input, &lattice, &link](int i, int j, int m) {
    return input.cost_model->StageSeconds(lattice.Load(i, j), m, link);
  };
  all.cut_seconds = [&input, &lattice, &link](int s) {
    return input.cost_model->CutSeconds(lattice.CutBytes(s), link);
  };
  return all;
}

PartitionInput Small(uint32_t seed, const char* model) {
  PartitionInput input =
      seed % 3 == 0 ? testing::RandomGraphInput(seed, 4, 1 + seed % 6,
                                                *FindCostModel(model))
                    : testing::RandomInput(seed, 1 + seed % 6, 1 + seed / 6 % 6,
                                           *FindCostModel(model));
  input.straight = seed % 7 == 0;
  input.fewer_workers = input.straight || seed % 4 == 0;
  if (seed % 2 == 1) input.stages = 1 + seed % 3;
  return input;
}

TEST_CASE("ways: every partition below the limit is within what is kept") {
  for (const char* name : {"paper", "pipework"}) {
    for (uint32_t seed = 0; seed < 200; ++seed) {
      const PartitionInput input = Small(seed, name);
      const double best = testing::BestSeconds(input);
      if (best > 1e300) continue;
      const Lattice lattice(input);
      Ways ways(lattice, All(input, lattice));
      const double limit = best * (1 + seed % 3 * 0.2);
      ways.KeepBelow(limit);
      testing::ForEachPartition(input, [&](const std::vector<StageCut>& cuts) {
        if (input.stages > 0 && static_cast<int>(cuts.size()) != input.stages) {
          return;
        }
        if (testing::SecondsOf(input, cuts) > limit) return;
        CAPTURE(name, seed, cuts.size());
        int used = input.workers();
        for (const StageCut& cut : cuts) used -= cut.replicas;
        for (size_t s = 0; s < cuts.size(); ++s) {
          used += cuts[s].replicas;
          const int j = cuts[s].last + 1;
          const WorkerRange kept =
              ways.Used(j, input.stages > 0 ? static_cast<int>(s) + 1 : 0);
          CHECK(kept.least <= used);
          CHECK(kept.most >= used);
          const Way* way = std::find_if(ways.begin(j), ways.end(j),
                                        [&cuts, s](const Way& other) {
                                          return other.from == cuts[s].first;
                                        });
          REQUIRE(way != ways.end(j));
          CHECK(way->replicas.least <= cuts[s].replicas);
          CHECK(way->replicas.most >= cuts[s].replicas);
        }
      });
    }
  }
}

TEST_CASE("ways: nothing is kept below the best") {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    PartitionInput input = testing::RandomInput(
        seed, 1 + seed % 6, 1 + seed % 5, *FindCostModel("pipework"));
    for (double& seconds : input.layer_seconds) seconds += 1;
    input.weight_bytes.assign(input.layers(), 0);
    const Lattice lattice(input);
    Ways ways(lattice, All(input, lattice));
    const double best = testing::BestSeconds(input);
    ways.KeepBelow(best * 0.999);
    CAPTURE(seed);
    // A layer of its own takes at least its seconds by all workers.
    CHECK(
        ways.Used(lattice.size(), 0).size() <=
        (lattice.Seconds(0, lattice.size()) / input.workers() < best ? 1 : 0));
    ways.KeepBelow(best);
    CHECK(ways.Used(lattice.size(), 0).size() == 1);
  }
}

TEST_CASE("ways: the quick guess is a partition's, and most often the best") {
  int all = 0;
  int same = 0;
  for (const char* name : {"paper", "pipework"}) {
    for (uint32_t seed = 0; seed < 400; ++seed) {
      const PartitionInput input = Small(seed, name);
      const double best = testing::BestSeconds(input);
      const Lattice lattice(input);
      const Ways ways(lattice, All(input, lattice));
      const double quick =
          ways.QuickSeconds(std::numeric_limits<double>::infinity());
      CAPTURE(name, seed);
      CHECK(quick >= best);
      ++all;
      if (quick <= best * (1 + 1e-6)) ++same;
    }
  }
  CHECK(same > all * 0.8);
}

TEST_CASE("ways: a guess keeps to memory and to pinned replicas") {
  PartitionInput input =
      testing::RandomInput(1, 6, 6, *FindCostModel("pipework"));
  input.layer_seconds.assign(6, 2);
  input.weight_bytes.assign(6, 0);
  input.cut_bytes.assign(6, 0);
  input.levels[0].link = {};
  input.stages = 2;
  const double infinity = std::numeric_limits<double>::infinity();
  const Lattice lattice(input);
  Pipelines pipelines = All(input, lattice);
  CHECK(Ways(lattice, pipelines).QuickSeconds(infinity) == Approx(2));
  pipelines.replicas = {5, 1};
  CHECK(Ways(lattice, pipelines).QuickSeconds(infinity) == Approx(2));
  pipelines.replicas = {4, 2};
  CHECK(Ways(lattice, pipelines).QuickSeconds(infinity) == Approx(2));
  pipelines.replicas = {1, 5};
  pipelines.fits = [](int from, int to, int, int) { return to - from == 3; };
  CHECK(Ways(lattice, pipelines).QuickSeconds(infinity) == Approx(6));
  pipelines.fits = [](int, int, int, int) { return false; };
  CHECK(Ways(lattice, pipelines).QuickSeconds(infinity) == infinity);
}

}  // namespace
}  // namespace pipework
