#include "daemon/oracle/network.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/optimizers/learning_rate.h"
#include "proto/check.h"
#include "proto/status_macros.h"

namespace pipework {

int Network::OwnerOf(int stage, int64_t unit) const {
  const int64_t number =
      takes_microbatches_ ? unit % units_per_minibatch_ : unit;
  return stages_[stage].turns[number % units_per_round(stage)];
}

bool Network::HasVersion(int stage, int64_t version) const {
  return stages_[stage].versions.count(version) > 0;
}

void Network::DropVersion(int stage, int64_t version) {
  PIPE_CHECK(version != stages_[stage].newest);
  stages_[stage].versions.erase(version);
}

absl::StatusOr<Network::Unit*> Network::UnitOf(int64_t number) {
  const auto found = units_.find(number);
  if (found != units_.end()) return &found->second;
  Unit unit;
  unit.minibatch = number / units_per_minibatch_;
  const std::vector<int64_t> indices = sampler_.IndicesOf(unit.minibatch);
  const SampleRange range =
      MicrobatchRange(static_cast<int64_t>(indices.size()),
                      units_per_minibatch_, number % units_per_minibatch_);
  unit.first_sample = range.first;
  unit.samples = range.end - range.first;
  Allocator& allocator = *backend_->allocator();
  ASSIGN_OR_RETURN(
      unit.x, Tensor::Allocate(allocator, info_.x.shape.WithBatch(unit.samples),
                               DType::kF32, MemoryUse::kActivations));
  ASSIGN_OR_RETURN(
      unit.y, Tensor::Allocate(allocator, info_.y.shape.WithBatch(unit.samples),
                               DType::kI32, MemoryUse::kActivations));
  RETURN_IF_ERROR(job_.train->Read(
      absl::MakeConstSpan(indices).subspan(static_cast<size_t>(range.first),
                                           static_cast<size_t>(unit.samples)),
      unit.x.f32(), unit.y.i32()));
  unit.values.resize(info_.layers.size());
  unit.saved.resize(info_.layers.size());
  unit.gradients.resize(info_.layers.size());
  unit.backwards_left = stages();
  return &units_.emplace(number, std::move(unit)).first->second;
}

StepContext Network::ContextOf(const Unit& unit) const {
  StepContext context;
  context.seed = job_.spec.seed();
  context.minibatch = MinibatchId(unit.minibatch);
  context.first_sample = unit.first_sample;
  return context;
}

absl::Status Network::Forward(int s, int replica, int64_t number,
                              int64_t version) {
  Stage& stage = stages_[s];
  ASSIGN_OR_RETURN(Unit* const unit, UnitOf(number));
  // A minibatch smaller than its number of microbatches has empty ones.
  if (unit->samples == 0) return absl::OkStatus();
  const TensorList& weights = stage.versions.at(version);
  TensorList& buffers = stage.members[replica].buffers;
  for (int i = stage.first_layer; i < stage.end_layer; ++i) {
    TensorList inputs;
    for (int input : info_.inputs[i]) {
      inputs.push_back(input == kInputX   ? unit->x
                       : input == kInputY ? unit->y
                                          : unit->values[input]);
      PIPE_CHECK(!inputs.back().empty());
    }
    const int local = i - stage.first_layer;
    const LayerInfo& info = info_.layers[i];
    ASSIGN_OR_RETURN(unit->values[i],
                     stage.bodies[local]->Forward(
                         ContextOf(*unit), inputs,
                         absl::MakeConstSpan(weights).subspan(
                             stage.first_param[local], info.params.size()),
                         absl::MakeSpan(buffers).subspan(
                             stage.first_buffer[local], info.buffers.size()),
                         &unit->saved[i]));
    if (!info.is_loss) continue;
    const double loss = unit->values[i].f32()[0];
    if (!std::isfinite(loss)) {
      return absl::OutOfRangeError(absl::StrCat(
          "oracle: loss of minibatch ", unit->minibatch, " is ", loss,
          ", expected a finite number; lower learning_rate.base"));
    }
    StepLoss& step = losses_[unit->minibatch];
    step.sum += loss;
    step.samples += unit->samples;
  }
  return absl::OkStatus();
}

absl::Status Network::Backward(int s, int replica, int64_t number,
                               int64_t version) {
  Stage& stage = stages_[s];
  ASSIGN_OR_RETURN(Unit* const unit, UnitOf(number));
  Replica& member = stage.members[replica];
  member.present = true;
  stage.samples += unit->samples;
  stage.last_unit = std::max(stage.last_unit, number);
  const TensorList& weights = stage.versions.at(version);
  for (int i = stage.end_layer - 1; unit->samples > 0 && i >= stage.first_layer;
       --i) {
    const int local = i - stage.first_layer;
    const LayerInfo& info = info_.layers[i];
    const std::vector<int>& inputs = info_.inputs[i];
    const std::unique_ptr<bool[]> wanted(new bool[inputs.size()]);
    for (size_t j = 0; j < inputs.size(); ++j) wanted[j] = inputs[j] >= 0;
    ASSIGN_OR_RETURN(
        const TensorList gradients,
        stage.bodies[local]->Backward(
            ContextOf(*unit), unit->saved[i],
            absl::MakeConstSpan(weights).subspan(stage.first_param[local],
                                                 info.params.size()),
            unit->gradients[i],
            absl::MakeConstSpan(wanted.get(), inputs.size()),
            absl::MakeSpan(member.gradients)
                .subspan(stage.first_param[local], info.params.size())));
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (inputs[j] < 0) continue;
      Tensor& sum = unit->gradients[inputs[j]];
      if (sum.empty()) {
        sum = gradients[j];
        continue;
      }
      ASSIGN_OR_RETURN(Tensor fresh, NewTensor(sum.shape()));
      RETURN_IF_ERROR(backend_->Add(
          {sum.elements(), sum.f32(), gradients[j].f32(), fresh.f32()}));
      sum = std::move(fresh);
    }
  }
  if (--unit->backwards_left == 0) units_.erase(number);
  return absl::OkStatus();
}

absl::Status Network::Update(int s) {
  Stage& stage = stages_[s];
  PIPE_CHECK(stage.last_unit >= 0);
  // Replica 0, 1, ...; the sum starts as the first one that is there.
  TensorList sums;
  for (Replica& member : stage.members) {
    if (!member.present) continue;
    for (size_t i = 0; i < member.gradients.size(); ++i) {
      const Tensor& gradient = member.gradients[i];
      if (sums.size() == i) {
        ASSIGN_OR_RETURN(Tensor copy, NewTensor(gradient.shape()));
        std::memcpy(copy.raw(), gradient.raw(),
                    static_cast<size_t>(gradient.bytes()));
        sums.push_back(std::move(copy));
      } else {
        RETURN_IF_ERROR(backend_->Accumulate(
            {gradient.elements(), gradient.f32(), sums[i].f32()}));
      }
    }
  }

  UpdateContext context;
  context.learning_rate = LearningRateAt(
      job_.spec.learning_rate(), stage.last_unit / units_per_minibatch_,
      total_steps_, sampler_.minibatches_per_epoch());
  context.update = stage.newest;
  context.gradient_scale =
      1.0 / (static_cast<double>(stage.samples) *
             static_cast<double>(info_.y.shape.elements()));
  const TensorList& old = stage.versions.at(stage.newest);
  TensorList updated;
  for (const Tensor& weight : old) {
    ASSIGN_OR_RETURN(Tensor fresh, NewTensor(weight.shape()));
    updated.push_back(std::move(fresh));
  }
  RETURN_IF_ERROR(optimizer_->Update(*backend_, context, old, sums,
                                     absl::MakeSpan(stage.state),
                                     absl::MakeSpan(updated)));
  stage.versions[++stage.newest] = std::move(updated);

  stage.samples = 0;
  stage.last_unit = -1;
  for (Replica& member : stage.members) {
    member.present = false;
    for (Tensor& gradient : member.gradients) {
      RETURN_IF_ERROR(
          backend_->Fill({gradient.elements(), 0.0f, gradient.f32()}));
    }
  }
  return absl::OkStatus();
}

absl::Status Network::Drain(int s) {
  Stage& stage = stages_[s];
  if (stage.replicas == 1) return absl::OkStatus();
  const float share = 1.0f / static_cast<float>(stage.replicas);
  for (size_t i = 0; i < stage.buffer_names.size(); ++i) {
    Tensor& mean = stage.members[0].buffers[i];
    for (int q = 1; q < stage.replicas; ++q) {
      RETURN_IF_ERROR(backend_->Accumulate(
          {mean.elements(), stage.members[q].buffers[i].f32(), mean.f32()}));
    }
    RETURN_IF_ERROR(backend_->Scale({mean.elements(), share, mean.f32()}));
    for (int q = 1; q < stage.replicas; ++q) {
      std::memcpy(stage.members[q].buffers[i].raw(), mean.raw(),
                  static_cast<size_t>(mean.bytes()));
    }
  }
  return absl::OkStatus();
}

std::vector<OracleTensor> Network::Tensors() const {
  std::vector<OracleTensor> tensors;
  const std::vector<std::string>& states = optimizer_->state_names();
  for (const Stage& stage : stages_) {
    const TensorList& weights = stage.versions.at(stage.newest);
    for (size_t i = 0; i < stage.params.size(); ++i) {
      const Param& param = stage.params[i];
      tensors.push_back({param.name, param.layer, weights[i]});
      for (size_t j = 0; j < states.size(); ++j) {
        tensors.push_back(
            {absl::StrCat("optimizer.", states[j], ".", param.name),
             param.layer, stage.state[i * states.size() + j]});
      }
    }
    for (size_t i = 0; i < stage.buffer_names.size(); ++i) {
      tensors.push_back({stage.buffer_names[i].name,
                         stage.buffer_names[i].layer,
                         stage.members[0].buffers[i]});
    }
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const OracleTensor& a, const OracleTensor& b) {
                     return a.layer < b.layer;
                   });
  return tensors;
}

std::vector<double> Network::Losses() const {
  std::vector<double> losses;
  const double labels = static_cast<double>(info_.y.shape.elements());
  for (const auto& [minibatch, step] : losses_) {
    losses.push_back(step.sum / (static_cast<double>(step.samples) * labels));
  }
  return losses;
}

}  // namespace pipework
