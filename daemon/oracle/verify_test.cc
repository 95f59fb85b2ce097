#include "daemon/oracle/verify.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/oracle/oracle.h"
#include "daemon/spec/spec.h"
#include "google/protobuf/text_format.h"
#include "kernels/layers/graph_shape.h"

namespace pipework {
namespace {

constexpr int64_t kSteps = 6;

std::string TestFolder(const std::string& name) {
  return absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
}

// An MLP on the digits, two stages.
v1::OracleRequest Request(const std::string& schedule) {
  char here[4096];
  REQUIRE(getcwd(here, sizeof here) != nullptr);
  const std::string digits = absl::StrCat(here, "/testdata/digits/");
  v1::OracleRequest request;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat(
          "spec { name: 'mlp' model { name: 'mlp' args { name: "
          "'hidden' int_value: 12 } }"
          " data { scale: 0.0625 train { x: '",
          digits, "train_x.npy' y: '", digits, "train_y.npy' } test { x: '",
          digits, "test_x.npy' y: '", digits,
          "test_y.npy' } } batch { minibatch: 32 }"
          " optimizer { name: 'adam' beta1: 0.9 beta2: 0.999 epsilon: "
          "1e-8 } learning_rate { base: 0.01 } run { epochs: 1 } "
          "seed: 1 threads_per_executor: 1 pipeline { schedule: '",
          schedule,
          "' } }"
          " plan { schedule: '",
          schedule, "' weights: '", schedule == "flush" ? "flush" : "stash",
          "' stages { end_layer: 3 replicas: 1 }"
          " stages { first_layer: 3 end_layer: 5 replicas: 1 } }"),
      &request));
  request.set_steps(kSteps);
  return request;
}

// What a pipeline of two stages with weight stashing would have done.
std::vector<Trace> Traces() {
  std::vector<Trace> traces(2);
  traces[1].stage = 1;
  int64_t forward = 0;
  for (int64_t k = 0; k < kSteps; ++k) {
    for (; forward < kSteps && forward <= k + 1; ++forward) {
      traces[0].records.push_back({'F', forward, forward, k, -1});
    }
    traces[0].records.push_back({'B', k, k, std::max<int64_t>(0, k - 1), -1});
    traces[0].records.push_back({'U', k, k, k, k + 1});
    traces[1].records.push_back({'F', k, k, k, -1});
    traces[1].records.push_back({'B', k, k, k, -1});
    traces[1].records.push_back({'U', k, k, k, k + 1});
  }
  for (Trace& trace : traces) {
    trace.records.push_back({'D', 0, 0, kSteps, -1});
  }
  return traces;
}

std::string WriteLogs(const std::vector<Trace>& traces,
                      const std::string& folder) {
  REQUIRE(std::system(absl::StrCat("mkdir -p ", folder).c_str()) == 0);
  for (const Trace& trace : traces) {
    std::ofstream file(absl::StrCat(folder, "/oplog-s", trace.stage, "-r",
                                    trace.replica, ".txt"));
    for (const TraceRecord& record : trace.records) {
      file << record.operation << ' ' << record.number << ' '
           << record.minibatch << " 0 " << record.version_read << ' '
           << record.version_written << '\n';
    }
  }
  return folder;
}

OracleResult Run(const v1::OracleRequest& request, v1::Graph* graph) {
  OracleJob job;
  job.spec = request.spec();
  job.plan = request.plan();
  const auto data = OpenData(job.spec.data());
  INFO(data.status());
  REQUIRE(data.ok());
  job.train = data->train;
  const auto built = GraphOf(
      job.spec, {job.train->sample_shape(), Shape(), job.train->classes()});
  INFO(built.status());
  REQUIRE(built.ok());
  job.graph = *graph = *built;
  auto result = request.plan().schedule() == "flush" ? RunPlain(job, {kSteps})
                                                     : RunReplay(job, Traces());
  INFO(result.status());
  REQUIRE(result.ok());
  return *std::move(result);
}

// A checkpoint with these tensors.
std::string Publish(const OracleResult& result, const v1::Graph& graph,
                    const std::string& name) {
  const auto partial = BeginCheckpoint(TestFolder(name), kSteps, 1);
  INFO(partial.status());
  REQUIRE(partial.ok());
  std::vector<NamedTensor> tensors;
  for (const OracleTensor& each : result.tensors) {
    tensors.push_back({each.name, each.tensor});
  }
  const auto shard = WriteShard(*partial, "stage-0.safetensors", 0, tensors);
  INFO(shard.status());
  REQUIRE(shard.ok());
  v1::Manifest manifest;
  manifest.set_format_version(1);
  manifest.set_job("j-test");
  manifest.set_attempt(1);
  manifest.set_step(kSteps);
  manifest.set_graph_hash(GraphHash(graph));
  manifest.add_updates(kSteps);
  manifest.add_first_layers(0);
  *manifest.add_shards() = *shard;
  const auto folder = PublishCheckpoint(*partial, manifest);
  INFO(folder.status());
  REQUIRE(folder.ok());
  return *folder;
}

TEST_CASE("verify: a run that agrees is equal in every layer") {
  for (const std::string schedule : {"flush", "1f1b"}) {
    CAPTURE(schedule);
    v1::OracleRequest request = Request(schedule);
    v1::Graph graph;
    const OracleResult result = Run(request, &graph);
    request.set_checkpoint(Publish(result, graph, "agrees-" + schedule));
    for (double loss : result.losses) request.add_losses(loss);
    if (schedule == "1f1b") {
      request.add_log_folders(TestFolder("nowhere"));
      request.add_log_folders(WriteLogs(Traces(), TestFolder("logs")));
    }
    const auto verification = RunOracle(request);
    INFO(verification.status());
    REQUIRE(verification.ok());
    INFO(verification->ShortDebugString());
    CHECK(verification->equal());
    CHECK(verification->oracle() == (schedule == "flush" ? "plain" : "replay"));
    CHECK(verification->replicas() == "1,1");
    CHECK(verification->steps() == kSteps);
    CHECK(verification->max_loss_difference() == 0);
    REQUIRE(verification->layers_size() == 2);
    CHECK(verification->layers(0).name() == "fc1");
    CHECK(verification->layers(1).bit_equal());
  }
}

TEST_CASE("verify: one flipped bit of one weight is found and named") {
  v1::OracleRequest request = Request("flush");
  v1::Graph graph;
  const OracleResult result = Run(request, &graph);
  for (const OracleTensor& each : result.tensors) {
    if (each.name != "optimizer.exp_avg_sq.fc2.weight") continue;
    reinterpret_cast<uint32_t*>(each.tensor.f32())[7] ^= 1;
  }
  request.set_checkpoint(Publish(result, graph, "flipped"));
  const auto verification = RunOracle(request);
  INFO(verification.status());
  REQUIRE(verification.ok());
  CHECK_FALSE(verification->equal());
  CHECK(verification->layers(0).bit_equal());
  CHECK_FALSE(verification->layers(1).bit_equal());
  CHECK(absl::StrContains(
      verification->first_difference(),
      "layer fc2: element 7 of optimizer.exp_avg_sq.fc2.weight is "));
}

TEST_CASE("verify: a backward on another version than its forward is found") {
  v1::OracleRequest request = Request("1f1b");
  v1::Graph graph;
  const OracleResult result = Run(request, &graph);
  request.set_checkpoint(Publish(result, graph, "version"));
  std::vector<Trace> traces = Traces();
  for (TraceRecord& record : traces[0].records) {
    if (record.operation == 'B' && record.number == 2) ++record.version_read;
  }
  request.add_log_folders(WriteLogs(traces, TestFolder("bad-logs")));
  const auto verification = RunOracle(request);
  INFO(verification.status());
  REQUIRE(verification.ok());
  CHECK_FALSE(verification->equal());
  CHECK(verification->first_difference() ==
        "stage 0 replica 0: version that the backward of unit 2 read is 2, "
        "expected 1, that of its forward");
}

TEST_CASE("verify: missing logs, another step and another graph are errors") {
  v1::OracleRequest request = Request("1f1b");
  v1::Graph graph;
  const OracleResult result = Run(request, &graph);
  const std::string folder = Publish(result, graph, "errors");
  request.set_checkpoint(folder);
  CHECK(RunOracle(request).status().code() == absl::StatusCode::kNotFound);

  request.add_log_folders(WriteLogs(Traces(), TestFolder("good-logs")));
  CHECK(RunOracle(request).ok());
  request.set_steps(kSteps + 1);
  CHECK(RunOracle(request).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  request.set_steps(kSteps);
  request.mutable_spec()->mutable_model()->mutable_args(0)->set_int_value(13);
  CHECK(RunOracle(request).status().code() ==
        absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace pipework
