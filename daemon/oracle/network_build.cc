// How a network is made: its stages, their tensors, which stages exchange some.
#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/oracle/network.h"
#include "kernels/backend_registry.h"
#include "kernels/optimizers/learning_rate.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// Far above what a plan has; keeps a round in memory.
constexpr int kMostShare = 4096;

// Schedules whose units are microbatches. The oracle knows them by itself.
bool TakesMicrobatches(const OracleJob& job) {
  const std::string& planned = job.plan.schedule();
  const std::string& schedule =
      planned.empty() ? job.spec.pipeline().schedule() : planned;
  return schedule == "flush" || schedule == "gpipe" ||
         schedule == "two_version";
}

// The replica of each unit of a round, after one rule: a turn goes to the
// replica that is furthest behind its share, the one with the smallest
// (turns so far + 1/2) / share, and to the lower number where two are. Shares
// count without what they have in common.
std::vector<int> TurnsOf(const v1::PlanStage& stage) {
  std::vector<int> shares(stage.shares().begin(), stage.shares().end());
  if (shares.empty()) shares.assign(stage.replicas(), 1);
  int common = 0;
  for (const int share : shares) common = std::gcd(common, share);
  int units = 0;
  for (int& share : shares) units += share /= common;
  std::vector<int> had(shares.size(), 0);
  std::vector<int> turns;
  while (static_cast<int>(turns.size()) < units) {
    size_t next = 0;
    for (size_t q = 1; q < shares.size(); ++q) {
      const int64_t own = (2 * int64_t{had[q]} + 1) * shares[next];
      const int64_t best = (2 * int64_t{had[next]} + 1) * shares[q];
      if (own < best) next = q;
    }
    ++had[next];
    turns.push_back(static_cast<int>(next));
  }
  return turns;
}

// They take batch.microbatches for each unit of a round of the first stage.
int64_t UnitsPerMinibatch(const OracleJob& job) {
  if (!TakesMicrobatches(job)) return 1;
  return std::max<int64_t>(1, job.spec.batch().microbatches()) *
         static_cast<int64_t>(TurnsOf(job.plan.stages(0)).size());
}

int64_t TotalSteps(const OracleJob& job) {
  if (job.spec.run().steps() > 0) return job.spec.run().steps();
  const int64_t minibatch = job.spec.batch().minibatch();
  return job.spec.run().epochs() *
         ((job.train->size() + minibatch - 1) / minibatch);
}

absl::Status CheckJob(const OracleJob& job, const GraphInfo& info) {
  PIPE_CHECK(job.train != nullptr);
  const int layers = job.graph.layers_size();
  int next = 0;
  for (const v1::PlanStage& stage : job.plan.stages()) {
    if (stage.first_layer() != next || stage.end_layer() <= next ||
        stage.end_layer() > layers || stage.replicas() < 1) {
      return Mismatch("oracle: plan", "a stage",
                      absl::StrCat("layers ", stage.first_layer(), "..",
                                   stage.end_layer() - 1, " on ",
                                   stage.replicas(), " replicas"),
                      absl::StrCat("one that begins at layer ", next));
    }
    const bool whole =
        std::all_of(stage.shares().begin(), stage.shares().end(),
                    [](int share) { return share > 0 && share <= kMostShare; });
    if (!stage.shares().empty() &&
        (stage.shares_size() != stage.replicas() || !whole)) {
      return Mismatch(
          "oracle: plan", "the shares of a stage",
          absl::StrJoin(stage.shares(), ","),
          absl::StrCat(stage.replicas(), " numbers, each 1 to ", kMostShare));
    }
    next = stage.end_layer();
  }
  if (next != layers) {
    return Mismatch("oracle: plan", "number of layers", absl::StrCat(next),
                    absl::StrCat(layers));
  }
  if (job.train->sample_shape() != info.x.shape ||
      job.train->label_shape() != info.y.shape) {
    return Mismatch("oracle: data", "shape of a sample",
                    job.train->sample_shape().ToString(),
                    info.x.shape.ToString());
  }
  if (job.spec.batch().minibatch() < 1 || job.train->size() < 1) {
    return Mismatch("oracle: data", "number of samples",
                    absl::StrCat(job.train->size()), "at least 1");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Create(OracleJob job) {
  ASSIGN_OR_RETURN(GraphInfo info, InferGraph(job.graph));
  RETURN_IF_ERROR(CheckJob(job, info));
  RETURN_IF_ERROR(CheckLearningRate(job.spec.learning_rate()));
  BackendOptions options;
  options.threads = std::max(1, job.spec.threads_per_executor());
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                   MakeBackend(job.backend, options));
  ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                   MakeOptimizer(job.spec.optimizer()));
  const v1::Plan plan = job.plan;
  auto network = std::unique_ptr<Network>(
      new Network(std::move(job), std::move(info), std::move(backend),
                  std::move(optimizer)));
  for (const v1::PlanStage& stage : plan.stages()) {
    RETURN_IF_ERROR(network->BuildStage(stage));
  }

  // Which stages exchange tensors.
  std::vector<int> stage_of(network->info_.layers.size());
  for (int s = 0; s < network->stages(); ++s) {
    const Stage& stage = network->stages_[s];
    for (int i = stage.first_layer; i < stage.end_layer; ++i) stage_of[i] = s;
  }
  std::vector<std::set<int>> producers(network->stages());
  std::vector<std::set<int>> consumers(network->stages());
  for (size_t i = 0; i < stage_of.size(); ++i) {
    for (int input : network->info_.inputs[i]) {
      if (input < 0 || stage_of[input] == stage_of[i]) continue;
      producers[stage_of[i]].insert(stage_of[input]);
      consumers[stage_of[input]].insert(stage_of[i]);
    }
  }
  for (int s = 0; s < network->stages(); ++s) {
    network->stages_[s].producers.assign(producers[s].begin(),
                                         producers[s].end());
    network->stages_[s].consumers.assign(consumers[s].begin(),
                                         consumers[s].end());
  }
  return network;
}

Network::Network(OracleJob job, GraphInfo info,
                 std::unique_ptr<Backend> backend,
                 std::unique_ptr<Optimizer> optimizer)
    : job_(std::move(job)),
      info_(std::move(info)),
      backend_(std::move(backend)),
      optimizer_(std::move(optimizer)),
      sampler_(job_.train->size(), job_.spec.batch().minibatch(),
               job_.spec.seed()),
      takes_microbatches_(TakesMicrobatches(job_)),
      units_per_minibatch_(UnitsPerMinibatch(job_)),
      accumulate_(std::max<int64_t>(1, job_.spec.batch().accumulate())),
      total_steps_(TotalSteps(job_)) {}

absl::StatusOr<Tensor> Network::NewTensor(const Shape& shape) {
  return Tensor::Allocate(*backend_->allocator(), shape, DType::kF32,
                          MemoryUse::kWeights);
}

absl::StatusOr<Tensor> Network::Initial(int layer, const ParamSpec& spec) {
  ASSIGN_OR_RETURN(Tensor tensor, NewTensor(spec.shape));
  const std::string& name = job_.graph.layers(layer).name();
  const auto given = job_.initial.find(absl::StrCat(name, ".", spec.name));
  if (given == job_.initial.end()) {
    Initialise(job_.spec.seed(), name, spec, tensor.f32());
    return tensor;
  }
  PIPE_CHECK(static_cast<int64_t>(given->second.size()) == tensor.elements());
  std::copy(given->second.begin(), given->second.end(), tensor.f32());
  return tensor;
}

absl::Status Network::BuildStage(const v1::PlanStage& planned) {
  const int first_layer = planned.first_layer();
  const int end_layer = planned.end_layer();
  Stage stage;
  stage.first_layer = first_layer;
  stage.end_layer = end_layer;
  stage.replicas = planned.replicas();
  stage.turns = TurnsOf(planned);
  stage.members.resize(stage.replicas);
  TensorList weights;
  for (int i = first_layer; i < end_layer; ++i) {
    const v1::Layer& layer = job_.graph.layers(i);
    const LayerInfo& info = info_.layers[i];
    std::vector<TensorSpec> inputs;
    for (int input : info_.inputs[i]) {
      inputs.push_back(input == kInputX   ? info_.x
                       : input == kInputY ? info_.y
                                          : info_.layers[input].output);
    }
    ASSIGN_OR_RETURN(std::unique_ptr<LayerBody> body,
                     MakeLayer(layer, inputs, *backend_));
    stage.bodies.push_back(std::move(body));
    stage.first_param.push_back(static_cast<int>(stage.params.size()));
    stage.first_buffer.push_back(static_cast<int>(stage.buffer_names.size()));
    for (const ParamSpec& spec : info.params) {
      stage.params.push_back({absl::StrCat(layer.name(), ".", spec.name), i});
      ASSIGN_OR_RETURN(Tensor tensor, Initial(i, spec));
      weights.push_back(std::move(tensor));
    }
    for (const ParamSpec& spec : info.buffers) {
      stage.buffer_names.push_back(
          {absl::StrCat(layer.name(), ".", spec.name), i});
      for (Replica& member : stage.members) {
        ASSIGN_OR_RETURN(Tensor tensor, Initial(i, spec));
        member.buffers.push_back(std::move(tensor));
      }
    }
  }
  for (const Tensor& weight : weights) {
    for (size_t i = 0; i < optimizer_->state_names().size(); ++i) {
      ASSIGN_OR_RETURN(Tensor state,
                       Tensor::Zeros(*backend_->allocator(), weight.shape(),
                                     DType::kF32, MemoryUse::kOptimizer));
      stage.state.push_back(std::move(state));
    }
    for (Replica& member : stage.members) {
      ASSIGN_OR_RETURN(Tensor gradient,
                       Tensor::Zeros(*backend_->allocator(), weight.shape(),
                                     DType::kF32, MemoryUse::kGradients));
      member.gradients.push_back(std::move(gradient));
    }
  }
  stage.versions[0] = std::move(weights);
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

}  // namespace pipework
