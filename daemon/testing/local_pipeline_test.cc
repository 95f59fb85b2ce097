#include "daemon/testing/local_pipeline.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "daemon/data/dataset.h"
#include "kernels/models/registry.h"

namespace pipework {
namespace {

std::string Absolute(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  REQUIRE(real != nullptr);
  const std::string out = real;
  std::free(real);
  return out;
}

v1::JobSpec DigitsSpec() {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.set_seed(1);
  spec.mutable_batch()->set_minibatch(32);
  spec.mutable_batch()->set_microbatches(1);
  spec.mutable_batch()->set_accumulate(1);
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_momentum(0.5);
  spec.mutable_learning_rate()->set_base(0.1);
  spec.mutable_learning_rate()->set_schedule("cosine");
  spec.mutable_learning_rate()->set_warmup_epochs(2);
  spec.mutable_pipeline()->set_schedule("1f1b");
  spec.mutable_pipeline()->set_weights("stash");
  spec.mutable_run()->set_epochs(20);
  spec.set_threads_per_executor(1);
  v1::DataSpec& data = *spec.mutable_data();
  const std::string folder = Absolute("testdata/digits");
  data.mutable_train()->set_x(folder + "/train_x.npy");
  data.mutable_train()->set_y(folder + "/train_y.npy");
  data.mutable_test()->set_x(folder + "/test_x.npy");
  data.mutable_test()->set_y(folder + "/test_y.npy");
  data.set_scale(1.0 / 16);
  return spec;
}

v1::Graph DigitsGraph(const DataSets& data) {
  ModelEnds ends;
  ends.sample = data.train->sample_shape();
  ends.label = data.train->label_shape();
  ends.classes = data.train->classes();
  auto graph = BuildModel("small_cnn", {}, ends);
  INFO(graph.status().ToString());
  REQUIRE(graph.ok());
  return *graph;
}

}  // namespace

TEST_CASE("local pipeline: the digits train in four stages under stashing") {
  LocalPipeline::Options options;
  options.spec = DigitsSpec();
  auto data = OpenData(options.spec.data());
  INFO(data.status().ToString());
  REQUIRE(data.ok());
  options.data = *data;
  options.graph = DigitsGraph(*data);
  options.plan = EvenPlan(options.spec, options.graph, 4);
  options.poison = false;
  auto result = LocalPipeline::Run(options);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  INFO(result->ended.message());
  REQUIRE(result->ended.finished());
  CHECK(result->epochs.size() == 20);
  for (const v1::StageMetrics& stage : result->stages) {
    CHECK(stage.versions_held() == 4 - stage.index());
    CHECK(stage.staleness() == 3 - stage.index());
  }
  CHECK(result->measured_step_ms > 0);
  CHECK(result->ended.test_accuracy() >= 0.975);
  CHECK(result->steps.size() == 20 * 45);
}

}  // namespace pipework
