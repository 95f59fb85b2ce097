// The golden trajectory: y = w0 w1 w2 x with x = t = 1, loss (y - t)^2 / 2, all
// weights 0.5, rate 0.1, six minibatches, SGD. The published rules give these
// weights, by simulation and in closed form.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/testing/local_pipeline.h"
#include "daemon/testing/test_jobs.h"
#include "kernels/layers/graph_shape.h"
#include "kernels/models/registry.h"

namespace pipework {
namespace {

TestJob Chain() {
  TestJob job = MlpJob();
  job.name = "chain";
  job.spec.set_name("chain");
  job.spec.mutable_batch()->set_minibatch(1);
  job.spec.mutable_optimizer()->Clear();
  job.spec.mutable_optimizer()->set_name("sgd");
  job.spec.mutable_learning_rate()->Clear();
  job.spec.mutable_learning_rate()->set_schedule("constant");
  job.spec.mutable_learning_rate()->set_base(0.1);
  job.spec.mutable_run()->set_epochs(1);
  job.data.train = std::make_shared<MemoryDataset>(
      Shape{1}, std::vector<float>(6, 1.0f), std::vector<int32_t>(6, 1), 2);
  ModelEnds ends;
  ends.sample = Shape{1};
  ends.classes = 2;
  auto graph = BuildModel("linear_chain", {}, ends);
  INFO(graph.status().ToString());
  REQUIRE(graph.ok());
  job.graph = *std::move(graph);
  return job;
}

// Runs the job from a checkpoint in which every weight is 0.5.
std::map<std::string, std::vector<float>> Train(
    LocalPipeline::Options options) {
  const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/half");
  std::filesystem::create_directories(folder);
  const auto allocator = MakeHostAllocator();
  std::vector<NamedTensor> tensors;
  for (const char* name : {"w0.weight", "w1.weight", "w2.weight"}) {
    auto tensor = Tensor::Allocate(*allocator, Shape{1, 1}, DType::kF32,
                                   MemoryUse::kWeights);
    REQUIRE(tensor.ok());
    tensor->f32()[0] = 0.5f;
    tensors.push_back({name, *tensor});
    auto state = Tensor::Zeros(*allocator, Shape{1, 1}, DType::kF32,
                               MemoryUse::kOptimizer);
    REQUIRE(state.ok());
    tensors.push_back({absl::StrCat("optimizer.momentum.", name), *state});
  }
  const auto shard = WriteShard(folder, "stage-0.safetensors", 0, tensors);
  REQUIRE(shard.ok());
  options.resume.set_graph_hash(GraphHash(options.graph));
  options.resume.add_updates(0);
  options.resume.add_first_layers(0);
  options.resume.set_test_accuracy(-1);
  *options.resume.add_shards() = *shard;
  options.resume_folder = folder;
  auto result = LocalPipeline::Run(options);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  INFO(result->ended.message());
  REQUIRE(result->ended.code() == 0);
  REQUIRE(result->steps.size() == 6);
  return result->tensors;
}

void CheckWeights(const LocalPipeline::Options& options, double w0, double w1,
                  double w2) {
  const auto tensors = Train(options);
  CHECK(tensors.at("w0.weight")[0] == Approx(w0).epsilon(1e-6));
  CHECK(tensors.at("w1.weight")[0] == Approx(w1).epsilon(1e-6));
  CHECK(tensors.at("w2.weight")[0] == Approx(w2).epsilon(1e-6));
}

}  // namespace

TEST_CASE("golden trajectory: weight stashing in three stages") {
  LocalPipeline::Options options = Chain().Cut(1);
  options.plan = PlanWithCuts(options.spec, options.graph, {1, 2});
  CheckWeights(options, 0.6510573865, 0.6466756523, 0.6418621748);
}

TEST_CASE(
    "golden trajectory: one stage, one in flight and flush are plain SGD") {
  const double w = 0.6541776133;
  CheckWeights(Chain().Cut(1), w, w, w);
  LocalPipeline::Options single = Chain().Cut(1);
  single.plan = PlanWithCuts(single.spec, single.graph, {1, 2});
  single.plan.set_in_flight(1);
  CheckWeights(single, w, w, w);
  LocalPipeline::Options flush = Flushing(Chain(), 1).Cut(1);
  flush.plan = PlanWithCuts(flush.spec, flush.graph, {1, 2});
  CheckWeights(flush, w, w, w);
}

}  // namespace pipework
