#include "daemon/spec/layer_checks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/layers/args.h"
#include "kernels/layers/graph_shape.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {
namespace {

// A large graph is not searched for the nearest name at each of its mistakes.
constexpr int kNamesCompared = 200;

std::string LayerField(int index) { return IndexField("model.layers", index); }

bool IsNameCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

// Inputs as they are meant: left out, the layer before, and the loss adds y.
std::vector<std::string> InputsOf(const v1::ModelSpec& model, int index) {
  const v1::Layer& layer = model.layers(index);
  if (!layer.inputs().empty()) {
    return {layer.inputs().begin(), layer.inputs().end()};
  }
  std::vector<std::string> inputs = {
      index == 0 ? "x" : model.layers(index - 1).name()};
  if (IsLossType(layer.type())) inputs.push_back("y");
  return inputs;
}

// The field that a message of a layer or of a built-in network speaks of:
// "<who>: <argument> is ..." or "<who>: argument "<name>" is not known".
std::string ArgumentField(
    const std::string& field,
    const google::protobuf::RepeatedPtrField<v1::Arg>& args,
    absl::string_view message) {
  for (const v1::Arg& arg : args) {
    if (absl::StrContains(message, absl::StrCat(": ", arg.name(), " is ")) ||
        absl::StrContains(message,
                          absl::StrCat("argument \"", arg.name(), "\" "))) {
      return JoinField(JoinField(field, "args"), arg.name());
    }
  }
  return field;
}

}  // namespace

void CheckLayers(const v1::ModelSpec& model, Problems* problems) {
  std::vector<absl::string_view> types;
  for (const LayerType& type : LayerTypes()) types.push_back(type.name);
  std::map<std::string, int> before;
  std::map<std::string, int> readers;
  bool misplaced = false;  // a loss stands before the end
  const int count = model.layers_size();
  for (int i = 0; i < count; ++i) {
    const v1::Layer& layer = model.layers(i);
    const std::string at = LayerField(i);
    const auto add = [&](const std::string& field, const std::string& got,
                         const std::string& expected, const std::string& hint) {
      if (!problems->IsSpoilt(field)) {
        problems->Add(field, got, expected, hint);
      }
    };
    for (const std::string& input : InputsOf(model, i)) {
      if (input == "x" || input == "y") continue;
      if (before.count(input) > 0) {
        ++readers[input];
        continue;
      }
      // Left out: the layer before has no good name, which is told there.
      if (layer.inputs().empty()) continue;
      std::vector<absl::string_view> known = {"x", "y"};
      for (int j = std::max(0, i - kNamesCompared); j < i; ++j) {
        known.push_back(model.layers(j).name());
      }
      const std::string nearest = NearestName(input, known);
      add(JoinField(at, "inputs"), Quoted(input),
          "x, y or the name of a layer before this one",
          nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?"));
    }
    const std::string name_field = JoinField(at, "name");
    const std::string& name = layer.name();
    if (name.empty()) {
      add(name_field, "nothing", "a name of its own", "");
    } else if (!std::all_of(name.begin(), name.end(), IsNameCharacter) ||
               name == "x" || name == "y") {
      add(name_field, Quoted(name), "letters, digits, '_', '.' and '-'",
          name == "x" || name == "y" ? "x and y are the inputs of the graph"
                                     : "");
    } else {
      const auto [other, fresh] = before.emplace(name, i);
      if (!fresh) {
        add(name_field, Quoted(name), "a name of its own",
            absl::StrCat(LayerField(other->second), " has it too"));
      }
    }
    const std::string type_field = JoinField(at, "type");
    if (layer.type().empty()) {
      add(type_field, "nothing",
          absl::StrCat("one of ", absl::StrJoin(types, ", ")), "");
    } else if (std::find(types.begin(), types.end(), layer.type()) ==
               types.end()) {
      const std::string nearest = NearestName(layer.type(), types);
      add(type_field, Quoted(layer.type()),
          absl::StrCat("one of ", absl::StrJoin(types, ", ")),
          nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?"));
    } else if (IsLossType(layer.type()) != (i + 1 == count)) {
      if (i + 1 < count) {
        add(type_field, layer.type(), "a loss only as the last layer", "");
        misplaced = true;
      } else if (!misplaced) {
        add(type_field, layer.type(), "a loss as the last layer",
            "end with softmax_cross_entropy");
      }
    }
  }
  for (const auto& [name, index] : before) {
    if (index + 1 < count && readers.count(name) == 0 &&
        !problems->Has("model.layers")) {
      problems->Add(
          LayerField(index), absl::StrCat("no reader of ", Quoted(name)),
          "a later layer that reads it", "remove it, or name it in inputs");
    }
  }
}

void CheckBuiltIn(const v1::JobSpec& spec, Problems* problems) {
  const v1::ModelSpec& model = spec.model();
  const auto args = absl::MakeConstSpan(model.args().data(),
                                        static_cast<size_t>(model.args_size()));
  // The data is not known here. An image of digits, else a single number: one
  // of them suits each network, or its arguments are wrong.
  ModelEnds image;
  image.sample = Shape({1, 28, 28});
  image.classes = 10;
  ModelEnds number;
  number.sample = Shape({1});
  number.label = Shape({1});
  number.classes = 2;
  absl::Status first;
  for (const ModelEnds& ends : {image, number}) {
    const auto graph = BuildModel(model.name(), args, ends);
    if (graph.ok()) {
      const int stages = std::max(spec.pipeline().stage_count(),
                                  spec.pipeline().stages_size());
      if (stages > graph->layers_size() &&
          !problems->IsSpoilt("pipeline.stages")) {
        problems->Add("pipeline.stages", absl::StrCat(stages, " stages"),
                      absl::StrCat("at most ", graph->layers_size(),
                                   ", the number of layers of ", model.name()),
                      "use fewer stages");
      }
      return;
    }
    if (first.ok()) first = graph.status();
  }
  std::string field = ArgumentField("model", model.args(), first.message());
  if (field != "model" && !problems->IsSpoilt(field)) {
    problems->AddStatus(std::move(field), first);
  }
}

bool HasStageLayers(const v1::PipelineSpec& pipeline) {
  return std::any_of(
      pipeline.stages().begin(), pipeline.stages().end(),
      [](const v1::StageSpec& stage) { return !stage.layers().empty(); });
}

void CheckStageLayers(const v1::PipelineSpec& pipeline,
                      absl::Span<const std::string> names, Problems* problems) {
  const auto count = static_cast<int>(names.size());
  if (pipeline.stage_count() > count || pipeline.stages_size() > count) {
    problems->Add(
        "pipeline.stages",
        absl::StrCat(std::max(pipeline.stage_count(), pipeline.stages_size()),
                     " stages"),
        absl::StrCat("at most ", count, ", the number of layers"));
    return;
  }
  if (!HasStageLayers(pipeline)) return;
  std::map<std::string, int> index;
  for (int i = 0; i < count; ++i) index[names[static_cast<size_t>(i)]] = i;
  const auto find = [&](absl::string_view name) {
    const auto found = index.find(std::string(name));
    return found == index.end() ? -1 : found->second;
  };

  std::vector<int> stage_of(names.size(), -1);
  bool whole = true;
  for (int s = 0; s < pipeline.stages_size(); ++s) {
    const std::string at =
        JoinField(IndexField("pipeline.stages", s), "layers");
    for (int l = 0; l < pipeline.stages(s).layers_size(); ++l) {
      const std::string& text = pipeline.stages(s).layers(l);
      const std::string field = IndexField(at, l);
      if (problems->IsSpoilt(field)) return;
      int first = find(text);
      int last = first;
      // A..B, where both are layers; a layer's name may have dots itself.
      for (size_t dots = text.find("..");
           first < 0 && dots != std::string::npos;
           dots = text.find("..", dots + 1)) {
        const int from = find(absl::string_view(text).substr(0, dots));
        const int to = find(absl::string_view(text).substr(dots + 2));
        if (from >= 0 && to >= 0) {
          first = from;
          last = to;
        }
      }
      if (first < 0) {
        const auto some =
            names.subspan(0, std::min<size_t>(names.size(), kNamesCompared));
        const std::vector<absl::string_view> known(some.begin(), some.end());
        const std::string nearest = NearestName(text, known);
        problems->Add(
            field, Quoted(text), "a layer, or A..B from one to another",
            nearest.empty()
                ? absl::StrCat("the layers are ",
                               absl::StrJoin(names.subspan(0, 20), ", "),
                               count > 20 ? ", ..." : "")
                : absl::StrCat("did you mean ", nearest, "?"));
        whole = false;
        continue;
      }
      if (last < first) {
        problems->Add(field, Quoted(text), "a range from earlier to later");
        whole = false;
        continue;
      }
      for (int layer = first; layer <= last; ++layer) {
        int& stage = stage_of[static_cast<size_t>(layer)];
        if (stage >= 0 && whole) {
          problems->Add(field, Quoted(text),
                        absl::StrCat("no layer twice: ",
                                     names[static_cast<size_t>(layer)],
                                     " is in stages[", stage, "]"),
                        "stages hold every layer once");
          whole = false;
        }
        stage = s;
      }
    }
  }
  const auto missing = std::find(stage_of.begin(), stage_of.end(), -1);
  if (whole && missing != stage_of.end() && !problems->Has("pipeline.stages")) {
    problems->Add(
        "pipeline.stages",
        absl::StrCat("without ",
                     names[static_cast<size_t>(missing - stage_of.begin())]),
        "every layer in one stage");
  }
}

v1::Graph CheckGraph(const v1::JobSpec& spec, const ModelEnds& ends,
                     Problems* problems) {
  const v1::ModelSpec& model = spec.model();
  v1::Graph graph;
  if (model.layers().empty()) {
    auto built =
        BuildModel(model.name(),
                   absl::MakeConstSpan(model.args().data(),
                                       static_cast<size_t>(model.args_size())),
                   ends);
    if (!built.ok()) {
      problems->AddStatus(
          ArgumentField("model", model.args(), built.status().message()),
          built.status());
      return graph;
    }
    graph = *std::move(built);
  } else {
    graph.set_name(spec.name());
    for (int64_t dim : ends.sample.dims()) graph.add_input_shape(dim);
    for (int64_t dim : ends.label.dims()) graph.add_label_shape(dim);
    *graph.mutable_layers() = model.layers();

    // Layer by layer, so that one that does not fit does not hide the next.
    std::map<std::string, TensorSpec> outputs;
    outputs["x"] = {ends.sample, DType::kF32};
    outputs["y"] = {ends.label, DType::kI32};
    for (int i = 0; i < model.layers_size(); ++i) {
      const v1::Layer& layer = model.layers(i);
      std::vector<TensorSpec> inputs;
      bool known = true;
      for (const std::string& input : InputsOf(model, i)) {
        const auto found = outputs.find(input);
        known = known && found != outputs.end();
        if (known) inputs.push_back(found->second);
      }
      if (!known) continue;
      const auto info = InferLayer(layer, inputs);
      if (info.ok()) {
        outputs.emplace(layer.name(), info->output);
      } else {
        problems->AddStatus(
            ArgumentField(LayerField(i), layer.args(), info.status().message()),
            info.status());
      }
    }
  }
  if (problems->empty()) {
    const auto info = InferGraph(graph);
    if (!info.ok()) problems->AddStatus("model", info.status());
  }
  return graph;
}

}  // namespace pipework
