#include "daemon/testing/test_jobs.h"

#include <cstring>
#include <utility>

#include "kernels/models/registry.h"
#include "proto/check.h"

namespace pipework {
namespace {

v1::Arg IntArg(const std::string& name, int64_t value) {
  v1::Arg arg;
  arg.set_name(name);
  arg.set_int_value(value);
  return arg;
}

v1::Arg BoolArg(const std::string& name, bool value) {
  v1::Arg arg;
  arg.set_name(name);
  arg.set_bool_value(value);
  return arg;
}

v1::Arg RealArg(const std::string& name, double value) {
  v1::Arg arg;
  arg.set_name(name);
  arg.set_real_value(value);
  return arg;
}

v1::Arg IntsArg(const std::string& name, const std::vector<int64_t>& values) {
  v1::Arg arg;
  arg.set_name(name);
  for (const int64_t value : values)
    arg.mutable_ints_value()->add_values(value);
  return arg;
}

TestJob JobOf(const std::string& name, const std::string& model,
              const std::vector<v1::Arg>& args, Shape sample) {
  TestJob job;
  job.name = name;
  job.spec.set_name(name);
  job.spec.set_seed(7);
  job.spec.set_threads_per_executor(1);
  job.spec.mutable_batch()->set_minibatch(8);
  job.spec.mutable_batch()->set_microbatches(1);
  job.spec.mutable_batch()->set_accumulate(1);
  job.spec.mutable_optimizer()->set_name("sgd");
  job.spec.mutable_optimizer()->set_momentum(0.9);
  job.spec.mutable_optimizer()->set_weight_decay(0.001);
  job.spec.mutable_learning_rate()->set_base(0.02);
  job.spec.mutable_learning_rate()->set_schedule("cosine");
  job.spec.mutable_learning_rate()->set_warmup_epochs(0.5);
  job.spec.mutable_pipeline()->set_schedule("1f1b");
  job.spec.mutable_pipeline()->set_weights("stash");
  job.spec.mutable_run()->set_epochs(2);
  job.data.train = ClusteredSamples(sample, 67, 5, 3);

  ModelEnds ends;
  ends.sample = sample;
  ends.classes = 5;
  std::vector<const v1::Arg*> pointers;
  for (const v1::Arg& arg : args) pointers.push_back(&arg);
  absl::StatusOr<v1::Graph> graph = BuildModel(model, pointers, ends);
  PIPE_CHECK(graph.ok());
  job.graph = *std::move(graph);
  return job;
}

}  // namespace

LocalPipeline::Options TestJob::Cut(int stages,
                                    const std::vector<int>& replicas) const {
  LocalPipeline::Options options;
  options.spec = spec;
  options.graph = graph;
  options.data = data;
  options.plan = EvenPlan(spec, graph, stages, replicas);
  return options;
}

TestJob MlpJob() {
  return JobOf("mlp", "mlp", {IntsArg("hidden", {12, 10, 9, 8})}, Shape{13});
}

TestJob CnnBatchNormJob() {
  return JobOf("cnn_bn", "small_cnn",
               {IntArg("width", 4), BoolArg("batch_norm", true)},
               Shape{1, 8, 8});
}

TestJob ResidualDropoutJob() {
  return JobOf("residual", "resnet_small",
               {IntsArg("widths", {4, 6}), RealArg("dropout", 0.25)},
               Shape{1, 8, 8});
}

std::vector<TestJob> AllTestJobs() {
  return {MlpJob(), CnnBatchNormJob(), ResidualDropoutJob()};
}

TestJob Scheduled(TestJob job, const std::string& schedule,
                  const std::string& weights, int microbatches) {
  job.spec.mutable_pipeline()->set_schedule(schedule);
  job.spec.mutable_pipeline()->set_weights(weights);
  job.spec.mutable_batch()->set_microbatches(microbatches);
  return job;
}

TestJob Flushing(TestJob job, int microbatches) {
  return Scheduled(std::move(job), "flush", "flush", microbatches);
}

void SetShares(v1::Plan* plan, int stage, const std::vector<int>& shares) {
  v1::PlanStage* planned = plan->mutable_stages(stage);
  PIPE_CHECK(static_cast<int>(shares.size()) == planned->replicas());
  for (const int share : shares) planned->add_shares(share);
}

std::vector<std::string> DifferentTensors(
    const std::map<std::string, std::vector<float>>& a,
    const std::map<std::string, std::vector<float>>& b) {
  std::vector<std::string> names;
  for (const auto& [name, values] : a) {
    const auto it = b.find(name);
    if (it == b.end() || it->second.size() != values.size() ||
        std::memcmp(it->second.data(), values.data(),
                    values.size() * sizeof(float)) != 0) {
      names.push_back(name);
    }
  }
  for (const auto& [name, values] : b) {
    if (a.count(name) == 0) names.push_back(name);
  }
  return names;
}

}  // namespace pipework
