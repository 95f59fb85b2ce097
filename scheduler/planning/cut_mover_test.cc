#include "scheduler/planning/cut_mover.h"

#include <catch2/catch.hpp>

#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

Workload WorkOf(const std::vector<double>& seconds) {
  Workload work;
  for (const double layer : seconds) {
    LayerCost cost;
    cost.backward_seconds = layer;
    work.chain.layers.push_back(cost);
    work.chain.cut_bytes.push_back(0);
    work.chain.gradient_bytes.push_back(0);
  }
  return work;
}

std::vector<double> GroupSeconds(const Workload& work,
                                 const std::vector<StageCut>& cuts) {
  // Stages in pairs on one core each.
  std::vector<double> seconds(cuts.size() / 2, 0);
  for (size_t s = 0; s < cuts.size(); ++s) {
    for (int l = cuts[s].first; l <= cuts[s].last; ++l) {
      seconds[s / 2] += work.LayerSeconds(l);
    }
  }
  return seconds;
}

TEST_CASE("cut mover: pairs of stages on one core get equal shares") {
  const DevicePool pool = MakePool(testing::Cluster(2, 2, 1), 1);
  const Workload work = WorkOf({6, 1, 1, 1, 1, 1, 1});
  const std::vector<StageCut> cuts =
      MoveCuts(work, pool, {{0, 0, 1}, {1, 2, 1}, {3, 4, 1}, {5, 6, 1}},
               {{0}, {1}, {2}, {3}});
  CHECK(GroupSeconds(work, cuts) == std::vector<double>{7, 5});
  CHECK(cuts.front().first == 0);
  CHECK(cuts.back().last == 6);
}

TEST_CASE("cut mover: a long chain is cut as well, one step at a time") {
  const DevicePool pool = MakePool(testing::Cluster(3, 2, 1), 1);
  std::vector<double> layers(60, 1);
  layers[0] = 10;
  const Workload work = WorkOf(layers);
  std::vector<StageCut> cuts;
  for (int s = 0; s < 6; ++s) cuts.push_back({s * 10, s * 10 + 9, 1});
  cuts = MoveCuts(work, pool, cuts, {{0}, {1}, {2}, {3}, {4}, {5}});
  for (const double seconds : GroupSeconds(work, cuts)) {
    CHECK(seconds == Approx(23).margin(1));
  }
  int next = 0;
  for (const StageCut& cut : cuts) {
    CHECK(cut.first == next);
    CHECK(cut.last >= cut.first);
    next = cut.last + 1;
  }
  CHECK(next == 60);
}

}  // namespace
}  // namespace pipework
