// Small runs for the sanitizers: every way in which executors meet.
#include <catch2/catch.hpp>

#include "daemon/testing/local_pipeline.h"
#include "daemon/testing/test_jobs.h"

namespace pipework {

TEST_CASE("executors: threads, replicas, evaluation, stop and abort") {
  for (const std::vector<int>& replicas :
       {std::vector<int>{1, 1, 1}, {2, 1, 2}}) {
    TestJob job = MlpJob();
    job.data.test = ClusteredSamples(Shape{13}, 20, 5, 3);
    LocalPipeline::Options options =
        job.Cut(static_cast<int>(replicas.size()), replicas);
    // The reference has no threads of its own and no library's either.
    options.backend = "reference";
    const auto whole = LocalPipeline::Run(options);
    REQUIRE(whole.ok());
    CHECK(whole->ended.finished());

    options.spec.mutable_run()->set_epochs(100000);
    for (const bool now : {false, true}) {
      options.on_report = [now](LocalPipeline& pipeline,
                                const v1::RunnerReport& report) {
        if (report.progress().step() > 20) pipeline.Stop(now, !now);
      };
      const auto stopped = LocalPipeline::Run(options);
      REQUIRE(stopped.ok());
      CHECK(stopped->ended.stopped());
    }
  }
}

}  // namespace pipework
