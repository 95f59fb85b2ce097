// The pipeline against the serial oracle, bit for bit: the strongest test that
// there is of executor, stores, transfers, all-reduce and policies at once.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/oracle/oracle.h"
#include "daemon/testing/local_pipeline.h"
#include "daemon/testing/test_jobs.h"

namespace pipework {
namespace {

OracleJob JobFor(const LocalPipeline::Options& options) {
  OracleJob job;
  job.spec = options.spec;
  job.graph = options.graph;
  job.plan = options.plan;
  job.train = options.data.train;
  return job;
}

std::map<std::string, std::vector<float>> ValuesOf(const OracleResult& result) {
  std::map<std::string, std::vector<float>> values;
  for (const OracleTensor& each : result.tensors) {
    const float* begin = each.tensor.f32();
    values[each.name].assign(begin, begin + each.tensor.elements());
  }
  return values;
}

std::vector<Trace> TracesOf(const LocalPipeline::Result& result) {
  std::vector<Trace> traces;
  for (const auto& [seat, records] : result.logs) {
    std::string text;
    for (const OperationRecord& record : records) {
      absl::StrAppend(&text, ToString(record), "\n");
    }
    Trace trace;
    trace.stage = seat.stage.value();
    trace.replica = seat.replica.value();
    auto parsed = ParseTrace("log", text);
    INFO(parsed.status().ToString());
    REQUIRE(parsed.ok());
    trace.records = *std::move(parsed);
    traces.push_back(std::move(trace));
  }
  return traces;
}

LocalPipeline::Result RunWell(const LocalPipeline::Options& options) {
  auto result = LocalPipeline::Run(options);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  INFO(result->ended.message());
  REQUIRE(result->ended.code() == 0);
  REQUIRE(result->ended.finished());
  return *std::move(result);
}

void CheckSame(const LocalPipeline::Result& pipeline,
               const absl::StatusOr<OracleResult>& oracle) {
  INFO(oracle.status().ToString());
  REQUIRE(oracle.ok());
  CHECK(absl::StrJoin(DifferentTensors(pipeline.tensors, ValuesOf(*oracle)),
                      " ") == "");
  CHECK(pipeline.losses() == oracle->losses);
}

const std::vector<std::vector<int>> kReplicas = {
    {1},       {1, 1},    {1, 1, 1}, {1, 1, 1, 1}, {2},       {2, 1},
    {1, 2},    {2, 2},    {3, 1},    {1, 3},       {2, 1, 1}, {1, 2, 1},
    {1, 1, 2}, {2, 3, 1}, {1, 3, 2}, {3, 2, 1, 1}};

}  // namespace

TEST_CASE("stashing: a replay of the version log gives the same bits") {
  for (const TestJob& job : AllTestJobs()) {
    for (const std::vector<int>& replicas : kReplicas) {
      CAPTURE(job.name, replicas);
      const LocalPipeline::Options options =
          job.Cut(static_cast<int>(replicas.size()), replicas);
      const LocalPipeline::Result result = RunWell(options);
      const std::vector<Trace> traces = TracesOf(result);
      CHECK(FirstBrokenPromise(traces) == "");
      CheckSame(result, RunReplay(JobFor(options), traces));
    }
  }
}

TEST_CASE("flush: the pipeline is plain SGD over the same microbatches") {
  for (const TestJob& plain : AllTestJobs()) {
    for (const int microbatches : {1, 3, 4}) {
      const TestJob job = Flushing(plain, microbatches);
      for (const std::vector<int>& replicas : kReplicas) {
        CAPTURE(job.name, microbatches, replicas);
        const LocalPipeline::Options options =
            job.Cut(static_cast<int>(replicas.size()), replicas);
        const LocalPipeline::Result result = RunWell(options);
        const OracleJob oracle = JobFor(options);
        CheckSame(result, RunPlain(oracle, DrainsOf(TracesOf(result))));
      }
    }
  }
}

TEST_CASE("gpipe: the pipeline is plain SGD over the same microbatches") {
  for (const TestJob& plain : AllTestJobs()) {
    for (const int microbatches : {1, 4}) {
      const TestJob job = Scheduled(plain, "gpipe", "flush", microbatches);
      for (const std::vector<int>& replicas : kReplicas) {
        CAPTURE(job.name, microbatches, replicas);
        const LocalPipeline::Options options =
            job.Cut(static_cast<int>(replicas.size()), replicas);
        const LocalPipeline::Result result = RunWell(options);
        const std::vector<Trace> traces = TracesOf(result);
        CHECK(FirstBrokenPromise(traces,
                                 PromiseOf(options.spec, options.plan)) == "");
        CheckSame(result, RunPlain(JobFor(options), DrainsOf(traces)));
      }
    }
  }
}

TEST_CASE("model parallelism is plain SGD, also with replicas") {
  for (const TestJob& plain : AllTestJobs()) {
    const TestJob job = Scheduled(plain, "model_parallel", "stash", 1);
    for (const std::vector<int>& replicas : kReplicas) {
      CAPTURE(job.name, replicas);
      const LocalPipeline::Options options =
          job.Cut(static_cast<int>(replicas.size()), replicas);
      const LocalPipeline::Result result = RunWell(options);
      CheckSame(result, RunPlain(JobFor(options), DrainsOf(TracesOf(result))));
    }
  }
}

TEST_CASE(
    "vertical sync and no stashing: a replay of the version log gives the same "
    "bits, and the log keeps what the policy promises") {
  for (TestJob job : AllTestJobs()) {
    for (const char* weights : {"vertical_sync", "none"}) {
      for (const int accumulate : {1, 2}) {
        job.spec.mutable_batch()->set_accumulate(accumulate);
        job = Scheduled(job, "1f1b", weights, 1);
        for (const std::vector<int>& replicas : kReplicas) {
          if (accumulate > 1 && replicas.size() > 2) continue;
          CAPTURE(job.name, weights, accumulate, replicas);
          const LocalPipeline::Options options =
              job.Cut(static_cast<int>(replicas.size()), replicas);
          const LocalPipeline::Result result = RunWell(options);
          const std::vector<Trace> traces = TracesOf(result);
          CHECK(FirstBrokenPromise(
                    traces, PromiseOf(options.spec, options.plan)) == "");
          CheckSame(result, RunReplay(JobFor(options), traces));
        }
      }
    }
  }
}

TEST_CASE("two versions: a replay gives the same bits, one update late") {
  for (TestJob job : AllTestJobs()) {
    for (const int accumulate : {1, 2}) {
      job.spec.mutable_batch()->set_accumulate(accumulate);
      // The depth of the longest pipeline, and what every round divides.
      job = Scheduled(job, "two_version", "two_version", 6);
      for (const std::vector<int>& replicas : kReplicas) {
        if (accumulate > 1 && replicas.size() > 2) continue;
        CAPTURE(job.name, accumulate, replicas);
        const LocalPipeline::Options options =
            job.Cut(static_cast<int>(replicas.size()), replicas);
        const LocalPipeline::Result result = RunWell(options);
        const std::vector<Trace> traces = TracesOf(result);
        CHECK(FirstBrokenPromise(traces,
                                 PromiseOf(options.spec, options.plan)) == "");
        CheckSame(result, RunReplay(JobFor(options), traces));
      }
    }
  }
}

TEST_CASE("one unit in flight, or one stage: the pipeline is plain SGD") {
  for (TestJob job : AllTestJobs()) {
    for (const int stages : {1, 2, 4}) {
      job.spec.mutable_pipeline()->set_in_flight("1");
      CAPTURE(job.name, stages);
      LocalPipeline::Options options = job.Cut(stages);
      options.plan.set_in_flight(1);
      const LocalPipeline::Result result = RunWell(options);
      CheckSame(result, RunPlain(JobFor(options), DrainsOf(TracesOf(result))));
    }
  }
}

TEST_CASE("accumulation: groups of minibatches are updated together") {
  for (TestJob job : AllTestJobs()) {
    job.spec.mutable_batch()->set_accumulate(2);
    for (const std::vector<int>& replicas :
         {std::vector<int>{1, 1, 1}, {2, 1}, {1, 2, 1}}) {
      CAPTURE(job.name, replicas);
      const int stages = static_cast<int>(replicas.size());
      const LocalPipeline::Options options = job.Cut(stages, replicas);
      const LocalPipeline::Result result = RunWell(options);
      CheckSame(result, RunReplay(JobFor(options), TracesOf(result)));

      const LocalPipeline::Options flush =
          Flushing(job, 2).Cut(stages, replicas);
      const LocalPipeline::Result flushed = RunWell(flush);
      CheckSame(flushed, RunPlain(JobFor(flush), DrainsOf(TracesOf(flushed))));
    }
  }
}

// By stage; a stage of which all are 1 has none in its plan.
const std::vector<std::vector<std::vector<int>>> kShares = {
    {{2, 1}},
    {{2, 1}, {1}},
    {{1}, {1, 2}},
    {{3, 1}, {2, 3}},
    {{1, 3, 2}, {1, 1}},
    {{1}, {2, 1}, {1}},
    {{1, 1}, {1}, {4, 2}}};

LocalPipeline::Options CutWithShares(
    const TestJob& job, const std::vector<std::vector<int>>& shares) {
  std::vector<int> replicas;
  for (const auto& stage : shares) {
    replicas.push_back(static_cast<int>(stage.size()));
  }
  LocalPipeline::Options options =
      job.Cut(static_cast<int>(shares.size()), replicas);
  for (size_t s = 0; s < shares.size(); ++s) {
    if (shares[s] == std::vector<int>(shares[s].size(), 1)) continue;
    SetShares(&options.plan, static_cast<int>(s), shares[s]);
  }
  return options;
}

TEST_CASE("shares: a replay of the version log gives the same bits") {
  for (TestJob job : AllTestJobs()) {
    for (const std::vector<std::vector<int>>& shares : kShares) {
      for (const int accumulate : {1, 2}) {
        job.spec.mutable_batch()->set_accumulate(accumulate);
        CAPTURE(job.name, shares, accumulate);
        const LocalPipeline::Options options = CutWithShares(job, shares);
        const LocalPipeline::Result result = RunWell(options);
        const std::vector<Trace> traces = TracesOf(result);
        CHECK(FirstBrokenPromise(traces) == "");
        CheckSame(result, RunReplay(JobFor(options), traces));
      }
    }
  }
}

TEST_CASE("shares: every policy replays to the same bits") {
  for (const TestJob& plain : {MlpJob(), CnnBatchNormJob()}) {
    for (const TestJob& job :
         {Scheduled(plain, "1f1b", "vertical_sync", 1),
          Scheduled(plain, "1f1b", "none", 1),
          Scheduled(plain, "two_version", "two_version", 30)}) {
      for (const std::vector<std::vector<int>>& shares : kShares) {
        CAPTURE(job.name, job.spec.pipeline().weights(), shares);
        const LocalPipeline::Options options = CutWithShares(job, shares);
        const LocalPipeline::Result result = RunWell(options);
        const std::vector<Trace> traces = TracesOf(result);
        CHECK(FirstBrokenPromise(traces,
                                 PromiseOf(options.spec, options.plan)) == "");
        CheckSame(result, RunReplay(JobFor(options), traces));
      }
    }
  }
}

TEST_CASE("shares: a flush is plain SGD over the same microbatches") {
  for (const TestJob& plain : AllTestJobs()) {
    for (const int microbatches : {1, 2}) {
      const TestJob job = Flushing(plain, microbatches);
      for (const std::vector<std::vector<int>>& shares : kShares) {
        CAPTURE(job.name, microbatches, shares);
        const LocalPipeline::Options options = CutWithShares(job, shares);
        const LocalPipeline::Result result = RunWell(options);
        CheckSame(result,
                  RunPlain(JobFor(options), DrainsOf(TracesOf(result))));
      }
    }
  }
}

TEST_CASE("shares: each replica runs its own, and all weigh by samples") {
  const LocalPipeline::Options options = CutWithShares(MlpJob(), {{1}, {2, 1}});
  const LocalPipeline::Result result = RunWell(options);
  std::map<int, std::vector<int64_t>> units;  // of stage 1, by replica
  for (const auto& [seat, records] : result.logs) {
    if (seat.stage != StageId(1)) continue;
    for (const OperationRecord& record : records) {
      if (record.operation == 'B' && record.number < 9) {
        units[seat.replica.value()].push_back(record.number);
      }
    }
  }
  CHECK(units[0] == std::vector<int64_t>{0, 2, 3, 5, 6, 8});
  CHECK(units[1] == std::vector<int64_t>{1, 4, 7});
}

TEST_CASE(
    "a tensor that many stages read: its gradient does not depend on the cut") {
  // a is read by b, c, d and e, so that any order of additions but one shows:
  //   a; b(a); c(a); d(a); s1 = b + c; s2 = s1 + d; e = s2 + a; loss(e, y)
  TestJob job = Flushing(MlpJob(), 2);
  job.graph.Clear();
  job.graph.set_name("fan");
  job.graph.add_input_shape(13);
  const auto add = [&job](const std::string& name, const std::string& type,
                          const std::vector<std::string>& inputs) {
    v1::Layer* layer = job.graph.add_layers();
    layer->set_name(name);
    layer->set_type(type);
    if (type == "linear") {
      layer->add_args()->set_name("out");
      layer->mutable_args(0)->set_int_value(5);
    }
    for (const std::string& input : inputs) layer->add_inputs(input);
  };
  add("a", "linear", {"x"});
  add("b", "linear", {"a"});
  add("c", "linear", {"a"});
  add("d", "linear", {"a"});
  add("s1", "add", {"b", "c"});
  add("s2", "add", {"s1", "d"});
  add("e", "add", {"s2", "a"});
  add("loss", "softmax_cross_entropy", {"e", "y"});
  const LocalPipeline::Result one = RunWell(job.Cut(1));
  for (const std::vector<int>& cuts :
       {std::vector<int>{3}, {1, 3}, {2, 5}, {1, 3, 6}, {1, 2, 3, 4, 5, 6}}) {
    CAPTURE(cuts);
    LocalPipeline::Options options = job.Cut(1);
    options.plan = PlanWithCuts(job.spec, job.graph, cuts);
    const LocalPipeline::Result result = RunWell(options);
    CHECK(absl::StrJoin(DifferentTensors(one.tensors, result.tensors), " ") ==
          "");
    CheckSame(result, RunPlain(JobFor(options), DrainsOf(TracesOf(result))));
  }
}

TEST_CASE("adam: its moments and its count of updates are the oracle's") {
  TestJob job = CnnBatchNormJob();
  job.spec.mutable_optimizer()->Clear();
  job.spec.mutable_optimizer()->set_name("adam");
  job.spec.mutable_optimizer()->set_beta1(0.9);
  job.spec.mutable_optimizer()->set_beta2(0.999);
  job.spec.mutable_optimizer()->set_epsilon(1e-8);
  job.spec.mutable_learning_rate()->set_base(0.002);
  const LocalPipeline::Options options = job.Cut(3, {1, 2, 1});
  const LocalPipeline::Result result = RunWell(options);
  CheckSame(result, RunReplay(JobFor(options), TracesOf(result)));
}

}  // namespace pipework
