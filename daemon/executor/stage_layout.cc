#include "daemon/executor/stage_layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

absl::Status CheckPlan(const v1::Graph& graph, const v1::Plan& plan) {
  int next = 0;
  for (int s = 0; s < plan.stages_size(); ++s) {
    const v1::PlanStage& stage = plan.stages(s);
    if (stage.first_layer() != next || stage.end_layer() <= next ||
        stage.replicas() < 1) {
      return Mismatch(
          "plan", absl::StrCat("stage ", s),
          absl::StrCat("layers ", stage.first_layer(), " to ",
                       stage.end_layer() - 1, " x", stage.replicas()),
          absl::StrCat("at least one replica of a range that "
                       "begins with layer ",
                       next));
    }
    next = stage.end_layer();
  }
  if (next != graph.layers_size()) {
    return Mismatch("plan", "end of the last stage", absl::StrCat(next),
                    absl::StrCat(graph.layers_size(), " layers"));
  }
  return absl::OkStatus();
}

// Layers ascending, then the sample, then the label.
struct ProducerOrder {
  static int Key(int producer) {
    if (producer == kInputX) return 1 << 30;
    if (producer == kInputY) return (1 << 30) + 1;
    return producer;
  }
  bool operator()(int a, int b) const { return Key(a) < Key(b); }
};

// Who reads a tensor, by consumer stage, layers ascending.
using Readers = std::map<int, std::vector<int>>;

class Builder {
 public:
  Builder(const v1::Graph& graph, const GraphInfo& info, const v1::Plan& plan,
          StageId stage)
      : graph_(graph), info_(info), plan_(plan) {
    layout_.stage = stage;
    layout_.replicas = plan.stages(stage.value()).replicas();
    layout_.first_layer = plan.stages(stage.value()).first_layer();
    layout_.end_layer = plan.stages(stage.value()).end_layer();
    for (int s = 0; s < plan.stages_size(); ++s) {
      for (int i = plan.stages(s).first_layer(); i < plan.stages(s).end_layer();
           ++i) {
        stage_of_.push_back(s);
      }
    }
    for (int i = 0; i < graph.layers_size(); ++i) {
      std::set<int> once(info.inputs[i].begin(), info.inputs[i].end());
      for (const int producer : once) {
        readers_[producer][stage_of_[i]].push_back(i);
      }
    }
  }

  StageLayout Build() {
    layout_.slots = layout_.layer_count();
    layout_.cells = layout_.layer_count();
    AddInputEdges();
    AddOutputEdges();
    for (int i = layout_.first_layer; i < layout_.end_layer; ++i) AddLayer(i);
    MarkLastUses();
    layout_.has_loss = info_.layers[layout_.end_layer - 1].is_loss;
    return std::move(layout_);
  }

 private:
  int self() const { return layout_.stage.value(); }
  int StageOf(int producer) const {
    return producer < 0 ? 0 : stage_of_[producer];
  }
  TensorSpec SpecOf(int producer) const {
    if (producer == kInputX) return info_.x;
    if (producer == kInputY) return info_.y;
    return info_.layers[producer].output;
  }
  static bool HasGradient(int producer) { return producer >= 0; }

  // The groups of layers of stage `consumer` whose gradients of `producer` are
  // added up before they are sent, in the order of the sum.
  std::vector<std::vector<int>> Parts(int producer, int consumer) const {
    const Readers& readers = readers_.at(producer);
    std::vector<int> layers = readers.at(consumer);
    std::reverse(layers.begin(), layers.end());
    // The last stage that reads begins the sum: it may add all it has.
    if (consumer == readers.rbegin()->first) return {layers};
    std::vector<std::vector<int>> parts;
    for (const int layer : layers) parts.push_back({layer});
    return parts;
  }

  int SlotOf(int producer) {
    if (producer >= layout_.first_layer && producer < layout_.end_layer) {
      return producer - layout_.first_layer;
    }
    const auto it = external_slots_.find(producer);
    if (it != external_slots_.end()) return it->second;
    const int slot = layout_.slots++;
    external_slots_[producer] = slot;
    if (self() == 0 && producer == kInputX) layout_.x_slot = slot;
    if (self() == 0 && producer == kInputY) layout_.y_slot = slot;
    return slot;
  }

  void AddInputEdges() {
    std::map<int, std::set<int, ProducerOrder>> by_stage;
    for (const auto& [producer, readers] : readers_) {
      const int from = StageOf(producer);
      if (from != self() && readers.count(self()) > 0) {
        by_stage[from].insert(producer);
      }
    }
    for (const auto& [from, producers] : by_stage) {
      EdgeLayout edge;
      edge.peer = StageId(from);
      for (const int producer : producers) {
        edge.tensors.push_back({producer, SlotOf(producer), SpecOf(producer)});
        if (!HasGradient(producer)) continue;
        for (const std::vector<int>& part : Parts(producer, self())) {
          const int cell = layout_.cells++;
          for (const int layer : part) cell_of_[{producer, layer}] = cell;
          edge.gradients.push_back({producer, cell, SpecOf(producer)});
        }
      }
      layout_.inputs.push_back(std::move(edge));
    }
  }

  void AddOutputEdges() {
    std::map<int, std::set<int, ProducerOrder>> by_stage;
    for (const auto& [producer, readers] : readers_) {
      if (StageOf(producer) != self()) continue;
      for (const auto& [to, layers] : readers) {
        if (to != self()) by_stage[to].insert(producer);
      }
    }
    for (const auto& [to, producers] : by_stage) {
      EdgeLayout edge;
      edge.peer = StageId(to);
      for (const int producer : producers) {
        const int slot = SlotOf(producer);
        edge.tensors.push_back({producer, slot, SpecOf(producer)});
        sent_slots_.insert(slot);
        if (!HasGradient(producer)) continue;
        for (size_t i = 0; i < Parts(producer, to).size(); ++i) {
          edge.gradients.push_back(
              {producer, producer - layout_.first_layer, SpecOf(producer)});
        }
      }
      layout_.outputs.push_back(std::move(edge));
    }
  }

  void AddLayer(int layer) {
    const LayerInfo& info = info_.layers[layer];
    const std::string& name = graph_.layers(layer).name();
    LayerWiring wiring;
    wiring.layer = layer;
    for (const int producer : info_.inputs[layer]) {
      wiring.input_slots.push_back(SlotOf(producer));
      wiring.wanted.push_back(HasGradient(producer));
      wiring.last_use.push_back(false);
      if (!HasGradient(producer)) {
        wiring.cells.push_back(-1);
      } else if (producer >= layout_.first_layer) {
        wiring.cells.push_back(producer - layout_.first_layer);
      } else {
        wiring.cells.push_back(cell_of_.at({producer, layer}));
      }
    }
    wiring.first_param = static_cast<int>(layout_.params.size());
    wiring.params = static_cast<int>(info.params.size());
    for (const ParamSpec& spec : info.params) {
      layout_.params.push_back(
          {absl::StrCat(name, ".", spec.name), name, spec});
    }
    wiring.first_buffer = static_cast<int>(layout_.buffers.size());
    wiring.buffers = static_cast<int>(info.buffers.size());
    for (const ParamSpec& spec : info.buffers) {
      layout_.buffers.push_back(
          {absl::StrCat(name, ".", spec.name), name, spec});
    }
    layout_.layers.push_back(std::move(wiring));
  }

  void MarkLastUses() {
    std::set<int> used_later = sent_slots_;
    for (auto it = layout_.layers.rbegin(); it != layout_.layers.rend(); ++it) {
      for (size_t j = it->input_slots.size(); j-- > 0;) {
        it->last_use[j] = used_later.insert(it->input_slots[j]).second;
      }
    }
  }

  const v1::Graph& graph_;
  const GraphInfo& info_;
  const v1::Plan& plan_;
  StageLayout layout_;
  std::vector<int> stage_of_;
  std::map<int, Readers> readers_;              // by producer
  std::map<int, int> external_slots_;           // by producer
  std::map<std::pair<int, int>, int> cell_of_;  // (producer, consumer)
  std::set<int> sent_slots_;
};

}  // namespace

absl::StatusOr<StageLayout> LayoutOf(const v1::Graph& graph,
                                     const GraphInfo& info,
                                     const v1::Plan& plan, StageId stage) {
  RETURN_IF_ERROR(CheckPlan(graph, plan));
  if (stage.value() < 0 || stage.value() >= plan.stages_size()) {
    return Mismatch("plan", "stage", absl::StrCat(stage.value()),
                    absl::StrCat("0 to ", plan.stages_size() - 1));
  }
  return Builder(graph, info, plan, stage).Build();
}

}  // namespace pipework
