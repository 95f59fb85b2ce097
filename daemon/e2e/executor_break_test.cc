// Whatever --break spoils, the oracle sees it. Only in testing builds.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/oracle/oracle.h"
#include "daemon/testing/local_pipeline.h"
#include "daemon/testing/test_jobs.h"

namespace pipework {
namespace {

bool OracleAgrees(const LocalPipeline::Options& options) {
  auto result = LocalPipeline::Run(options);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  INFO(result->ended.message());
  REQUIRE(result->ended.code() == 0);
  std::vector<Trace> traces;
  for (const auto& [seat, records] : result->logs) {
    std::string text;
    for (const OperationRecord& record : records) {
      absl::StrAppend(&text, ToString(record), "\n");
    }
    auto parsed = ParseTrace("log", text);
    REQUIRE(parsed.ok());
    traces.push_back(
        {seat.stage.value(), seat.replica.value(), *std::move(parsed)});
  }
  if (!FirstBrokenPromise(traces, PromiseOf(options.spec, options.plan))
           .empty()) {
    return false;
  }
  OracleJob job;
  job.spec = options.spec;
  job.graph = options.graph;
  job.plan = options.plan;
  job.train = options.data.train;
  const auto oracle = options.plan.schedule() == "flush"
                          ? RunPlain(job, DrainsOf(traces))
                          : RunReplay(job, traces);
  INFO(oracle.status().ToString());
  REQUIRE(oracle.ok());
  std::map<std::string, std::vector<float>> values;
  for (const OracleTensor& each : oracle->tensors) {
    const float* begin = each.tensor.f32();
    values[each.name].assign(begin, begin + each.tensor.elements());
  }
  return DifferentTensors(result->tensors, values).empty();
}

}  // namespace

TEST_CASE("the oracle disagrees with every run that is broken on purpose") {
  for (const std::vector<int>& replicas :
       {std::vector<int>{1, 1, 1}, {2, 1}, {1, 2, 1}}) {
    for (const bool flush : {false, true}) {
      const TestJob job = flush ? Flushing(MlpJob(), 2) : MlpJob();
      LocalPipeline::Options options =
          job.Cut(static_cast<int>(replicas.size()), replicas);
      CAPTURE(replicas, flush);
      CHECK(OracleAgrees(options));
      for (const char* mode : {"version", "label", "scale", "order"}) {
        // A flush has no version but the newest.
        if (flush && std::string(mode) == "version") continue;
        CAPTURE(mode);
        options.break_mode = mode;
        CHECK_FALSE(OracleAgrees(options));
      }
    }
  }
}

TEST_CASE("the mistake of each weight policy is seen") {
  const struct {
    const char* schedule;
    const char* weights;
    int microbatches;
    const char* mode;
  } rows[] = {{"1f1b", "vertical_sync", 1, "newest"},
              {"1f1b", "none", 1, "stash"},
              {"two_version", "two_version", 4, "newest"}};
  for (const auto& row : rows) {
    const TestJob job =
        Scheduled(MlpJob(), row.schedule, row.weights, row.microbatches);
    for (const std::vector<int>& replicas :
         {std::vector<int>{1, 1, 1}, {2, 1}, {1, 2, 1}}) {
      CAPTURE(row.schedule, row.weights, replicas);
      LocalPipeline::Options options =
          job.Cut(static_cast<int>(replicas.size()), replicas);
      CHECK(OracleAgrees(options));
      options.break_mode = row.mode;
      CHECK_FALSE(OracleAgrees(options));
    }
  }
}

TEST_CASE("a break mode that is not known is refused") {
  LocalPipeline::Options options = MlpJob().Cut(2);
  options.break_mode = "everything";
  CHECK(absl::IsInvalidArgument(LocalPipeline::Run(options).status()));
}

}  // namespace pipework
