// A profile of a job's own network, taken in the middle of its run and in its
// process, leaves no trace: not in weights, optimizer state and batch norm
// statistics, and not in what dropout draws.
#include <atomic>
#include <catch2/catch.hpp>

#include "daemon/profiler/profiler.h"
#include "daemon/testing/local_pipeline.h"
#include "daemon/testing/test_jobs.h"

namespace pipework {
namespace {

LocalPipeline::Result RunWell(const LocalPipeline::Options& options) {
  auto result = LocalPipeline::Run(options);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  INFO(result->ended.message());
  REQUIRE(result->ended.code() == 0);
  return *std::move(result);
}

TEST_CASE("profiler: a job that is profiled while it trains has every bit") {
  for (const TestJob& job : AllTestJobs()) {
    CAPTURE(job.name);
    LocalPipeline::Options options = job.Cut(3);
    const LocalPipeline::Result alone = RunWell(options);

    v1::RunnerProfile request;
    *request.mutable_spec() = job.spec;
    *request.mutable_graph() = job.graph;
    request.set_batch(job.spec.batch().minibatch());
    ProfileOptions quick;
    quick.budget = absl::Milliseconds(20);
    std::atomic<int> profiles{0};
    absl::Status failed;
    options.on_report = [&](LocalPipeline&, const v1::RunnerReport& report) {
      if (!report.has_progress() || profiles > 1) return;
      const auto profile = RunProfile(request, quick);
      if (!profile.ok()) failed = profile.status();
      ++profiles;
    };
    const LocalPipeline::Result watched = RunWell(options);
    INFO(failed.ToString());
    REQUIRE(failed.ok());
    REQUIRE(profiles > 0);
    CHECK(DifferentTensors(alone.tensors, watched.tensors).empty());
    CHECK(alone.losses() == watched.losses());
  }
}

}  // namespace
}  // namespace pipework
