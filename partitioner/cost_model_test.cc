#include "partitioner/cost_model.h"

#include <catch2/catch.hpp>

namespace pipework {
namespace {

StageLoad Load(double compute, double weights, double in = 0, double out = 0) {
  StageLoad load;
  load.compute_seconds = compute;
  load.weight_bytes = weights;
  load.input_bytes = in;
  load.output_bytes = out;
  return load;
}

TEST_CASE("cost model: paper charges one whole ring to every minibatch") {
  const CostModel& paper = **FindCostModel("paper");
  const Link link{10, 0};
  CHECK(paper.StageSeconds(Load(12, 100), 1, link) == 12);
  CHECK(paper.StageSeconds(Load(12, 3), 3, link) == 4);
  // 2 (m - 1) W / (m B) = 2 * 2 * 100 / 30
  CHECK(paper.StageSeconds(Load(12, 100), 3, link) == Approx(400.0 / 30));
  CHECK(paper.CutSeconds(50, link) == 10);
}

TEST_CASE(
    "cost model: pipework charges the ring once for a round of replicas") {
  const CostModel& ours = **FindCostModel("pipework");
  const Link link{10, 0};
  // (12 + 2 (m - 1) W / (m B)) / m
  CHECK(ours.StageSeconds(Load(12, 90), 3, link) == Approx((12 + 12) / 3.0));
  CHECK(ours.StageSeconds(Load(12, 90), 1, link) == 12);
}

TEST_CASE("cost model: pipework lets each end of a cut carry its messages") {
  const CostModel& ours = **FindCostModel("pipework");
  const Link link{10, 1};
  // In and out, there and back, with latency each.
  CHECK(ours.StageSeconds(Load(1, 0, 20, 30), 1, link) == 2 * (2 + 1 + 3 + 1));
  CHECK(ours.StageSeconds(Load(1, 0, 20, 30), 2, link) == 7);
  CHECK(ours.CutSeconds(30, link) == 0);
  // A free link costs its latency alone.
  CHECK(ours.StageSeconds(Load(0, 0, 20, 0), 1, {0, 0.5}) == 1);
}

TEST_CASE(
    "cost model: pipework's messages take computing's time where measured") {
  const CostModel& ours = **FindCostModel("pipework");
  // Messages 2 * 20 / 10 = 4, a quarter of them in the processor.
  CHECK(ours.StageSeconds(Load(12, 0, 20, 0), 1, {10, 0, 0.25}) == 13);
  CHECK(ours.StageSeconds(Load(12, 0, 20, 0), 2, {10, 0, 0.25}) == 6.5);
  // They wait for the link, not for the processor.
  CHECK(ours.StageSeconds(Load(1, 0, 20, 0), 1, {10, 0, 0.25}) == 4);
}

// The partitioners leave out what cannot pay on these grounds.
TEST_CASE("cost model: no stage is faster than its share of computing") {
  for (const std::string& name : CostModelNames()) {
    const CostModel& model = **FindCostModel(name);
    for (int m = 1; m <= 9; ++m) {
      for (const double bytes : {0.0, 7.0, 300.0}) {
        double last = 0;
        for (const double compute : {0.0, 1.0, 3.0, 50.0}) {
          const double seconds = model.StageSeconds(
              Load(compute, bytes, bytes / 2, bytes), m, {10, 0.5, 0.25});
          CAPTURE(name, m, bytes, compute);
          CHECK(seconds >= compute / m);
          CHECK(seconds >= last);
          last = seconds;
        }
      }
    }
  }
}

TEST_CASE("cost model: public_code adds a parameter server's traffic") {
  const CostModel& code = **FindCostModel("public_code");
  const Link link{10, 1};
  CHECK(code.StageSeconds(Load(12, 100, 5, 5), 1, link) == 12);
  // (12 + 4 (m - 1) W / (m B)) / m
  CHECK(code.StageSeconds(Load(12, 90), 3, link) == Approx((12 + 24) / 3.0));
  CHECK(code.CutSeconds(50, link) == 0);
}

TEST_CASE("cost model: a ring of one costs nothing, and bytes come by halves") {
  CHECK(RingSeconds(1e9, 1, {1, 1}) == 0);
  CHECK(RingSeconds(100, 2, {10, 0}) == 10);
  CHECK(RingSeconds(100, 4, {10, 1}) == Approx(6 * (2.5 + 1)));
}

TEST_CASE("cost model: an unknown name lists the known ones") {
  CHECK(FindCostModel("magic").status().message() ==
        "cost model \"magic\" is not known; known models: pipework, paper, "
        "public_code");
}

}  // namespace
}  // namespace pipework
