#include "daemon/executor/layer_runner.h"

#include <utility>

#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {

LayerRunner::LayerRunner(BuiltStage* stage, Backend* backend, int64_t seed)
    : stage_(stage), backend_(backend), seed_(seed) {
  values_.resize(stage->layout.slots);
  cells_.resize(stage->layout.cells);
}

absl::StatusOr<Tensor> LayerRunner::Forward(InFlight& flight,
                                            const TensorList& weights,
                                            bool training) {
  const StageLayout& layout = stage_->layout;
  StepContext context;
  context.seed = seed_;
  context.minibatch = flight.minibatch;
  context.first_sample = flight.first_sample;
  context.training = training;
  std::swap(values_, flight.inputs);
  flight.inputs.clear();
  values_.resize(layout.slots);
  for (int i = 0; i < layout.layer_count(); ++i) {
    const LayerWiring& wiring = layout.layers[i];
    arguments_.clear();
    for (size_t j = 0; j < wiring.input_slots.size(); ++j) {
      Tensor& value = values_[wiring.input_slots[j]];
      if (wiring.last_use[j]) {
        arguments_.push_back(std::move(value));
        value = Tensor();
      } else {
        arguments_.push_back(value);
      }
    }
    absl::StatusOr<Tensor> output = stage_->bodies[i]->Forward(
        context, arguments_,
        absl::MakeConstSpan(weights).subspan(wiring.first_param, wiring.params),
        absl::MakeSpan(stage_->buffers)
            .subspan(wiring.first_buffer, wiring.buffers),
        training ? &flight.saved[i] : nullptr);
    if (!output.ok()) {
      return WithContext(stage_->layer_names[i], output.status());
    }
    values_[i] = *std::move(output);
  }
  arguments_.clear();
  for (size_t e = 0; e < layout.outputs.size(); ++e) {
    for (const EdgeTensor& tensor : layout.outputs[e].tensors) {
      flight.outputs[e].push_back(values_[tensor.slot]);
    }
  }
  Tensor loss;
  if (layout.has_loss) loss = std::move(values_[layout.layer_count() - 1]);
  values_.assign(layout.slots, Tensor());
  return loss;
}

absl::Status LayerRunner::AddToCell(int cell, Tensor gradient) {
  Tensor& sum = cells_[cell];
  if (sum.empty()) {
    sum = std::move(gradient);
    return absl::OkStatus();
  }
  // Somebody else may hold either buffer: then the sum is a new one.
  if (sum.users() == 1) {
    return backend_->Add(
        {sum.elements(), sum.f32(), gradient.f32(), sum.f32()});
  }
  ASSIGN_OR_RETURN(Tensor fresh,
                   Tensor::Allocate(*backend_->allocator(), sum.shape(),
                                    sum.dtype(), MemoryUse::kActivations));
  RETURN_IF_ERROR(
      backend_->Add({sum.elements(), sum.f32(), gradient.f32(), fresh.f32()}));
  sum = std::move(fresh);
  return absl::OkStatus();
}

absl::Status LayerRunner::Backward(InFlight& flight, const TensorList& weights,
                                   absl::Span<Tensor> gradients) {
  const StageLayout& layout = stage_->layout;
  StepContext context;
  context.seed = seed_;
  context.minibatch = flight.minibatch;
  context.first_sample = flight.first_sample;

  // What came back, from the last stage that reads a tensor to the first.
  for (size_t e = layout.outputs.size(); e-- > 0;) {
    for (size_t p = 0; p < layout.outputs[e].gradients.size(); ++p) {
      RETURN_IF_ERROR(AddToCell(layout.outputs[e].gradients[p].cell,
                                std::move(flight.output_gradients[e][p])));
    }
    flight.output_gradients[e].clear();
  }
  for (int i = layout.layer_count(); i-- > 0;) {
    const LayerWiring& wiring = layout.layers[i];
    const Tensor output_gradient = std::move(cells_[i]);
    cells_[i] = Tensor();
    absl::StatusOr<TensorList> input_gradients = stage_->bodies[i]->Backward(
        context, flight.saved[i],
        absl::MakeConstSpan(weights).subspan(wiring.first_param, wiring.params),
        output_gradient, wiring.wanted,
        gradients.subspan(wiring.first_param, wiring.params));
    if (!input_gradients.ok()) {
      return WithContext(stage_->layer_names[i], input_gradients.status());
    }
    // Nothing of the layer is needed any more.
    flight.saved[i].tensors.clear();
    for (size_t j = 0; j < wiring.cells.size(); ++j) {
      if (wiring.cells[j] < 0) continue;
      RETURN_IF_ERROR(
          AddToCell(wiring.cells[j], std::move((*input_gradients)[j])));
    }
  }
  for (size_t e = 0; e < layout.inputs.size(); ++e) {
    for (const GradientPart& part : layout.inputs[e].gradients) {
      flight.input_gradients[e].push_back(std::move(cells_[part.cell]));
      cells_[part.cell] = Tensor();
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
