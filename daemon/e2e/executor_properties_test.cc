// What the papers promise of a pipeline, asked of what the executors logged and
// measured. Nothing here depends on timing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "absl/strings/str_join.h"
#include "daemon/testing/local_pipeline.h"
#include "daemon/testing/test_jobs.h"
#include "scheduler/compile.h"
#include "scheduler/program.h"

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

SeatId Seat(int stage, int replica = 0) {
  return {StageId(stage), ReplicaId(replica)};
}

// Rows F and B of a log.
std::vector<OperationRecord> Of(const std::vector<OperationRecord>& log,
                                const std::string& operations) {
  std::vector<OperationRecord> out;
  for (const OperationRecord& record : log) {
    if (operations.find(record.operation) != std::string::npos) {
      out.push_back(record);
    }
  }
  return out;
}

std::string Order(const std::vector<OperationRecord>& log, size_t count) {
  std::string text;
  for (const OperationRecord& record : Of(log, "FB")) {
    if (count-- == 0) break;
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    absl::string_view(&record.operation, 1), record.number);
  }
  return text;
}

// A job whose epoch has `minibatches` whole minibatches.
TestJob MlpOf(int64_t minibatches, int64_t epochs) {
  TestJob job = MlpJob();
  job.data.train = ClusteredSamples(Shape{13}, minibatches * 8, 5, 3);
  job.spec.mutable_run()->set_epochs(epochs);
  return job;
}

}  // namespace

TEST_CASE("1f1b: the golden order of operations of four stages") {
  const LocalPipeline::Result result = RunWell(MlpOf(8, 1).Cut(4));
  CHECK(Order(result.logs.at(Seat(0)), 16) ==
        "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  CHECK(Order(result.logs.at(Seat(1)), 16) ==
        "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  CHECK(Order(result.logs.at(Seat(2)), 16) ==
        "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
  CHECK(Order(result.logs.at(Seat(3)), 16) ==
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST_CASE(
    "stashing: minibatch k reads version max(0, k - (P-1-s)) on stage s") {
  for (int stages = 1; stages <= 4; ++stages) {
    CAPTURE(stages);
    const LocalPipeline::Result result = RunWell(MlpOf(12, 2).Cut(stages));
    for (int s = 0; s < stages; ++s) {
      CAPTURE(s);
      for (const OperationRecord& record : Of(result.logs.at(Seat(s)), "FBU")) {
        // k counts from the last drain, and so do the versions.
        const int64_t drained = record.number / 12 * 12;
        const int64_t k = record.number - drained;
        const int64_t version =
            drained + std::max<int64_t>(0, k - (stages - 1 - s));
        CAPTURE(ToString(record));
        if (record.operation == 'U') {
          CHECK(record.version_written == record.number + 1);
        } else {
          CHECK(record.version_read == version);
        }
      }
    }
  }
}

TEST_CASE("stashing: versions held are versions(s), by the allocator's bytes") {
  const std::vector<std::vector<int>> plans = {
      {1}, {1, 1}, {1, 1, 1}, {1, 1, 1, 1}, {2, 1}, {2, 1, 1}, {3, 1}, {1, 3}};
  for (const std::vector<int>& replicas : plans) {
    CAPTURE(replicas);
    const LocalPipeline::Options options =
        MlpOf(12, 2).Cut(static_cast<int>(replicas.size()), replicas);
    const PipelineShape shape = ShapeOf(options.graph, options.plan);
    const LocalPipeline::Result result = RunWell(options);
    for (const v1::StageMetrics& stage : result.stages) {
      CAPTURE(stage.index(), stage.replica());
      const int versions = Versions(shape, StageId(stage.index()));
      CHECK(stage.versions_held() == versions);
      CHECK(stage.stash_bytes() == (versions - 1) * stage.weight_bytes());
      // Activations of at most warm(s) + 1 units.
      const int in_flight =
          result.peak_in_flight.at(Seat(stage.index(), stage.replica()));
      CHECK(in_flight == Warmup(shape, StageId(stage.index())) + 1);
    }
  }
}

TEST_CASE("stashing: staleness is S-1-s, and 0 on the last stage") {
  for (int stages = 1; stages <= 4; ++stages) {
    const LocalPipeline::Result result = RunWell(MlpOf(12, 2).Cut(stages));
    for (const v1::StageMetrics& stage : result.stages) {
      CAPTURE(stages, stage.index());
      CHECK(stage.staleness() == stages - 1 - stage.index());
    }
  }
}

TEST_CASE("flush and one unit in flight hold one version and are never stale") {
  for (const bool flush : {true, false}) {
    TestJob job = MlpOf(6, 2);
    if (flush) job = Flushing(job, 4);
    LocalPipeline::Options options = job.Cut(4);
    if (!flush) options.plan.set_in_flight(1);
    const LocalPipeline::Result result = RunWell(options);
    for (const v1::StageMetrics& stage : result.stages) {
      CAPTURE(flush, stage.index());
      CHECK(stage.versions_held() == 1);
      CHECK(stage.staleness() == 0);
      CHECK(result.peak_in_flight.at(Seat(stage.index())) ==
            (flush ? std::min(4 - stage.index(), 4) : 1));
    }
  }
}

TEST_CASE("replicas: unit k runs on replica k mod r, forward and backward") {
  const LocalPipeline::Result result = RunWell(MlpOf(12, 1).Cut(3, {2, 3, 1}));
  const int replicas[] = {2, 3, 1};
  for (int s = 0; s < 3; ++s) {
    for (int q = 0; q < replicas[s]; ++q) {
      std::map<int64_t, int64_t> forward;
      for (const OperationRecord& record :
           Of(result.logs.at(Seat(s, q)), "FB")) {
        CAPTURE(s, q, ToString(record));
        CHECK(record.number % replicas[s] == q);
        if (record.operation == 'F') {
          forward[record.number] = record.version_read;
        } else {
          CHECK(record.version_read == forward.at(record.number));
        }
      }
    }
  }
}

TEST_CASE("replicas: weights and buffers are the same on all of them") {
  for (const TestJob& job : AllTestJobs()) {
    const LocalPipeline::Result result = RunWell(job.Cut(3, {2, 3, 2}));
    for (const auto& [seat, tensors] : result.replicas) {
      CAPTURE(job.name, seat.stage.value(), seat.replica.value());
      CHECK(DifferentTensors(tensors,
                             result.replicas.at({seat.stage, ReplicaId(0)}))
                .empty());
    }
  }
}

TEST_CASE("an epoch shorter than the pipeline is deep runs to its end") {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int64_t minibatches = 1; minibatches <= stages + 1; ++minibatches) {
      CAPTURE(stages, minibatches);
      const LocalPipeline::Result result =
          RunWell(MlpOf(minibatches, 3).Cut(stages));
      CHECK(static_cast<int64_t>(result.steps.size()) == 3 * minibatches);
      const LocalPipeline::Result flushed =
          RunWell(Flushing(MlpOf(minibatches, 2), 3).Cut(stages));
      CHECK(static_cast<int64_t>(flushed.steps.size()) == 2 * minibatches);
    }
  }
}

TEST_CASE("short last minibatch: every sample counts once in each epoch") {
  for (const int64_t rest : {1, 7}) {
    TestJob job = MlpJob();
    job.data.train = ClusteredSamples(Shape{13}, 5 * 8 + rest, 5, 3);
    for (const bool flush : {false, true}) {
      // 8 samples do not divide by 3, and one is less than 3 microbatches.
      const TestJob run = flush ? Flushing(job, 3) : job;
      const LocalPipeline::Result result = RunWell(run.Cut(3));
      REQUIRE(result.steps.size() == 12);
      int64_t samples = 0;
      for (const v1::StepMetrics& step : result.steps) {
        CHECK(step.samples() == (step.step() % 6 == 5 ? rest : 8));
        samples += step.samples();
      }
      CHECK(samples == 2 * (5 * 8 + rest));
    }
  }
}

TEST_CASE("a split minibatch makes the same update however it is split") {
  // 32 samples as 1 x 32, 4 x 8, 8 x 4, and 4 minibatches of 2 x 4.
  const auto run = [](int64_t minibatch, int microbatches, int64_t accumulate) {
    TestJob job = MlpJob();
    job.data.train = ClusteredSamples(Shape{13}, 32, 5, 3);
    job.spec.mutable_run()->set_epochs(1);
    job.spec.mutable_optimizer()->set_momentum(0);
    job.spec.mutable_learning_rate()->Clear();
    job.spec.mutable_learning_rate()->set_base(0.5);
    job.spec.mutable_learning_rate()->set_schedule("constant");
    job.spec.mutable_batch()->set_minibatch(minibatch);
    job.spec.mutable_batch()->set_accumulate(accumulate);
    return RunWell(Flushing(job, microbatches).Cut(2)).tensors;
  };
  const auto whole = run(32, 1, 1);
  const int splits[][3] = {{32, 4, 1}, {32, 8, 1}, {8, 2, 4}};
  for (const auto& split : splits) {
    const auto parts = run(split[0], split[1], split[2]);
    CAPTURE(split[0], split[1], split[2]);
    for (const auto& [name, values] : whole) {
      if (name.find("optimizer") == 0) continue;
      for (size_t i = 0; i < values.size(); ++i) {
        CAPTURE(name, i);
        REQUIRE(parts.at(name)[i] == Approx(values[i]).margin(1e-6));
      }
    }
  }
}

TEST_CASE("the first update does not depend on the number of stages") {
  // SGD shows a gradient of another scale in the weights; Adam hides it there,
  // but not in its moments.
  for (const bool adam : {false, true}) {
    std::map<std::string, std::vector<float>> one;
    for (int stages = 1; stages <= 4; ++stages) {
      TestJob job = MlpOf(1, 1);
      job.spec.mutable_optimizer()->set_momentum(0);
      if (adam) {
        v1::OptimizerSpec* optimizer = job.spec.mutable_optimizer();
        optimizer->set_name("adam");
        optimizer->set_beta1(0.9);
        optimizer->set_beta2(0.999);
        optimizer->set_epsilon(1e-8);
      }
      const auto tensors = RunWell(job.Cut(stages)).tensors;
      if (stages == 1) one = tensors;
      CAPTURE(adam, stages);
      CHECK(absl::StrJoin(DifferentTensors(one, tensors), " ") == "");
    }
  }
}

TEST_CASE("initial weights do not depend on the cut or on replicas") {
  std::map<std::string, std::vector<float>> one;
  for (const std::vector<int>& replicas :
       {std::vector<int>{1}, {1, 1}, {1, 1, 1, 1}, {2}, {1, 2}}) {
    TestJob job = CnnBatchNormJob();
    // A rate of zero leaves them as they were.
    job.spec.mutable_learning_rate()->Clear();
    job.spec.mutable_learning_rate()->set_schedule("constant");
    job.spec.mutable_learning_rate()->set_base(0);
    job.spec.mutable_run()->set_epochs(1);
    auto tensors =
        RunWell(job.Cut(static_cast<int>(replicas.size()), replicas)).tensors;
    std::map<std::string, std::vector<float>> weights;
    for (const auto& [name, values] : tensors) {
      if (name.find("running_") == std::string::npos &&
          name.find("optimizer") == std::string::npos) {
        weights[name] = values;
      }
    }
    if (one.empty()) one = weights;
    CAPTURE(replicas);
    CHECK(absl::StrJoin(DifferentTensors(one, weights), " ") == "");
  }
}

TEST_CASE(
    "dropout: with flush the losses do not depend on stages or replicas") {
  const TestJob job = Flushing(ResidualDropoutJob(), 2);
  const std::vector<double> one = RunWell(job.Cut(1)).losses();
  CHECK(RunWell(job.Cut(2)).losses() == one);
  CHECK(RunWell(job.Cut(4)).losses() == one);
  // Two replicas with one microbatch each are the same two microbatches, but
  // for the running statistics, which no training loss reads.
  const TestJob halved = Flushing(ResidualDropoutJob(), 1);
  const std::vector<double> replicated =
      RunWell(halved.Cut(2, {2, 2})).losses();
  REQUIRE(replicated.size() == one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    CHECK(replicated[i] == Approx(one[i]).epsilon(1e-5));
  }
}

TEST_CASE("with a rate of zero every mode computes what one device computes") {
  TestJob job = MlpOf(6, 1);
  job.spec.mutable_learning_rate()->Clear();
  job.spec.mutable_learning_rate()->set_schedule("constant");
  job.spec.mutable_learning_rate()->set_base(0);
  const std::vector<double> one = RunWell(job.Cut(1)).losses();
  CHECK(RunWell(job.Cut(4)).losses() == one);
  CHECK(RunWell(job.Cut(3, {2, 3, 1})).losses() == one);
}

TEST_CASE("draining after every minibatch makes stashing plain SGD") {
  TestJob job = MlpOf(6, 1);
  job.spec.mutable_checkpoint()->set_every_steps(1);
  const LocalPipeline::Result drained = RunWell(job.Cut(4));
  TestJob plain = MlpOf(6, 1);
  const LocalPipeline::Result one = RunWell(plain.Cut(1));
  CHECK(absl::StrJoin(DifferentTensors(drained.tensors, one.tensors), " ") ==
        "");
  CHECK(drained.checkpoints.size() == 6);
}

TEST_CASE("the same job twice gives the same bits, whatever the threads do") {
  for (const TestJob& job : AllTestJobs()) {
    const LocalPipeline::Options options = job.Cut(3, {2, 1, 2});
    const LocalPipeline::Result a = RunWell(options);
    const LocalPipeline::Result b = RunWell(options);
    CAPTURE(job.name);
    CHECK(DifferentTensors(a.tensors, b.tensors).empty());
    CHECK(a.losses() == b.losses());
  }
}

}  // namespace pipework
