#include "scheduler/planning/fit.h"

#include <catch2/catch.hpp>

#include "scheduler/planning/planning.h"
#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

WorkloadRequest Asked(int64_t minibatch) {
  WorkloadRequest request;
  request.recipe = {"1f1b", "stash"};
  request.minibatch = minibatch;
  return request;
}

TEST_CASE("fit: only changes that were tried and fit are named") {
  Pins pins;
  pins.stage_count = 2;
  const v1::Topology topology = testing::Cluster(1, 4);
  int tried = 0;
  const std::string text =
      NearestFit(Asked(32), pins, topology, 4, 8,
                 [&tried](const WorkloadRequest& request, const Pins& changed,
                          const v1::Topology&) {
                   ++tried;
                   return request.minibatch <= 8 || changed.stage_count == 4;
                 });
  CHECK(text == "would fit: pipeline.stages 4, batch.minibatch 8");
  CHECK(tried > 4);
}

TEST_CASE("fit: the deepest pipe that fits is found, not a power of two") {
  const std::string text = NearestFit(
      Asked(1), {}, testing::Cluster(1, 8), 8, 8,
      [](const WorkloadRequest& request, const Pins&, const v1::Topology&) {
        return request.in_flight > 0 && request.in_flight <= 6;
      });
  CHECK(text == "would fit: pipeline.in_flight 6");
}

TEST_CASE("fit: where nothing helps all that was tried is told") {
  const std::string text =
      NearestFit(Asked(4), {}, testing::Cluster(1, 2), 2, 8,
                 [](const WorkloadRequest&, const Pins&, const v1::Topology&) {
                   return false;
                 });
  CHECK(text ==
        "tried in vain: pipeline.in_flight 1, batch.minibatch 1, schedule "
        "flush with 4 microbatches, 4 devices");
}

// What the message promises is what a plan then does.
TEST_CASE("fit: a change that the planner names makes the job plan") {
  const v1::Graph graph = testing::ChainGraph(4);
  const v1::Profile profile =
      testing::ProfileOf(graph, {1, 1, 1, 1}, int64_t{1} << 20);
  v1::Topology topology = testing::Cluster(1, 2);
  for (v1::Device& device : *topology.mutable_nodes(0)->mutable_devices()) {
    device.set_memory_bytes(int64_t{7} << 20);
  }
  v1::JobSpec spec = testing::SpecOf(2);
  const auto refused = PlanJob(spec, graph, profile, topology, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message() ==
        "plan: stage 0 on n1/cpu:0 needs 10.0 MiB with 2 weight versions and 2 "
        "units in flight, expected at most 7.0 MiB; would fit: "
        "pipeline.in_flight 1, batch.minibatch 2, schedule flush with 4 "
        "microbatches");
  v1::JobSpec shallow = spec;
  shallow.mutable_pipeline()->set_in_flight("1");
  CHECK(PlanJob(shallow, graph, profile, topology, {}).ok());
  v1::JobSpec small = spec;
  small.mutable_batch()->set_minibatch(2);
  CHECK(PlanJob(small, graph, profile, topology, {}).ok());
  small.mutable_batch()->set_minibatch(4);
  CHECK_FALSE(PlanJob(small, graph, profile, topology, {}).ok());
  v1::JobSpec flush = spec;
  flush.mutable_pipeline()->set_schedule("flush");
  flush.mutable_batch()->set_microbatches(4);
  CHECK(PlanJob(flush, graph, profile, topology, {}).ok());
}

TEST_CASE("fit: of very deep pipes the deepest that fits is found soon") {
  WorkloadRequest request = Asked(1);
  request.in_flight = 65536;
  int tried = 0;
  const std::string text = NearestFit(
      request, {}, testing::Cluster(1, 8), 8, 8,
      [&tried](const WorkloadRequest& asked, const Pins&, const v1::Topology&) {
        ++tried;
        return asked.in_flight <= 3001 && asked.recipe.schedule == "1f1b";
      });
  CHECK(text.rfind("would fit: pipeline.in_flight 3001", 0) == 0);
  CHECK(tried < 30);
}

}  // namespace
}  // namespace pipework
