#include "scheduler/planning/pins.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/layer_order.h"
#include "scheduler/program.h"

namespace pipework {
namespace {

constexpr int kMostInFlight = 65536;
constexpr int kMostShare = 1024;

std::string StagePath(int s) {
  return absl::StrCat("pipeline.stages[", s, "]");
}

// Layer indices of one stage, names and A..B ranges resolved.
absl::StatusOr<std::vector<int>> LayersOf(
    const v1::StageSpec& stage, int s,
    const absl::flat_hash_map<std::string, int>& index_of) {
  const auto find = [&](const std::string& name) -> absl::StatusOr<int> {
    const auto found = index_of.find(name);
    if (found != index_of.end()) return found->second;
    return Mismatch(absl::StrCat(StagePath(s), ".layers"), "a layer",
                    absl::StrCat("\"", name, "\""),
                    "the name of a layer of the graph");
  };
  std::vector<int> layers;
  for (const std::string& text : stage.layers()) {
    const size_t dots = text.find("..");
    if (dots == std::string::npos) {
      ASSIGN_OR_RETURN(const int layer, find(text));
      layers.push_back(layer);
      continue;
    }
    ASSIGN_OR_RETURN(const int first, find(text.substr(0, dots)));
    ASSIGN_OR_RETURN(const int last, find(text.substr(dots + 2)));
    if (last < first) {
      return Mismatch(absl::StrCat(StagePath(s), ".layers"), "a range",
                      absl::StrCat("\"", text, "\""),
                      "one from an earlier to a later layer");
    }
    for (int l = first; l <= last; ++l) layers.push_back(l);
  }
  return layers;
}

absl::Status ReadDevices(const v1::StageSpec& stage, int s, int replicas,
                         const DevicePool& pool, std::set<int>* used,
                         std::vector<int>* devices) {
  if (stage.devices().empty()) return absl::OkStatus();
  const std::string who = absl::StrCat(StagePath(s), ".devices");
  if (stage.devices_size() != replicas) {
    return Mismatch(who, "its length", absl::StrCat(stage.devices_size()),
                    absl::StrCat(replicas, ", one for each replica"));
  }
  for (const std::string& name : stage.devices()) {
    const int device = pool.Find(name);
    if (device < 0) {
      std::vector<std::string> known;
      for (const PooledDevice& usable : pool.devices) {
        known.push_back(usable.name);
      }
      return Mismatch(who, "a device", absl::StrCat("\"", name, "\""),
                      absl::StrCat("a usable device of the cluster: ",
                                   absl::StrJoin(known, ", ")));
    }
    if (!used->insert(device).second) {
      return Mismatch(who, "a device", absl::StrCat("\"", name, "\" again"),
                      "a device for one replica only");
    }
    devices->push_back(device);
  }
  return absl::OkStatus();
}

absl::Status ReadInFlight(const std::string& text, Pins* pins) {
  if (text.empty() || text == "noam") return absl::OkStatus();
  if (text == "auto") {
    pins->any_in_flight = true;
    return absl::OkStatus();
  }
  if (!absl::SimpleAtoi(text, &pins->in_flight) || pins->in_flight < 1 ||
      pins->in_flight > kMostInFlight) {
    return Mismatch("pipeline.in_flight", "the value",
                    absl::StrCat("\"", text, "\""),
                    absl::StrCat("noam, auto, or 1 to ", kMostInFlight));
  }
  return absl::OkStatus();
}

absl::Status ReadShares(const v1::StageSpec& stage, int s, int replicas,
                        std::vector<int>* shares) {
  if (stage.shares().empty()) return absl::OkStatus();
  const std::string who = absl::StrCat(StagePath(s), ".shares");
  if (stage.shares_size() != replicas) {
    return Mismatch(who, "its length", absl::StrCat(stage.shares_size()),
                    absl::StrCat(replicas, ", one for each replica"));
  }
  for (const int share : stage.shares()) {
    if (share < 1 || share > kMostShare) {
      return Mismatch(who, "a share", absl::StrCat(share),
                      absl::StrCat("1 to ", kMostShare));
    }
  }
  *shares = NormalShares(stage.shares());
  return absl::OkStatus();
}

// By layer the stage that lists it: every layer in one, and none reads from a
// later stage.
absl::Status CheckStages(const v1::Graph& graph,
                         const std::vector<int>& stage_of) {
  const std::vector<std::vector<int>> read = LayersRead(graph);
  for (int l = 0; l < graph.layers_size(); ++l) {
    const std::string name = absl::StrCat("\"", graph.layers(l).name(), "\"");
    if (stage_of[l] < 0) {
      return Mismatch("pipeline.stages", absl::StrCat("the stage of ", name),
                      "missing", "one of those listed",
                      "stages hold all layers of the graph");
    }
    for (const int input : read[l]) {
      if (stage_of[input] <= stage_of[l]) continue;
      return Mismatch(absl::StrCat(StagePath(stage_of[l]), ".layers"), name,
                      absl::StrCat("before \"", graph.layers(input).name(),
                                   "\" in ", StagePath(stage_of[input])),
                      "in the same stage or a later one",
                      "it reads its output");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadLayers(const v1::PipelineSpec& pipeline,
                        const v1::Graph& graph, Pins* pins) {
  absl::flat_hash_map<std::string, int> index_of;
  for (int l = 0; l < graph.layers_size(); ++l) {
    index_of[graph.layers(l).name()] = l;
  }
  std::vector<int> stage_of(graph.layers_size(), -1);
  for (int s = 0; s < pipeline.stages_size(); ++s) {
    ASSIGN_OR_RETURN(const std::vector<int> layers,
                     LayersOf(pipeline.stages(s), s, index_of));
    if (layers.empty()) {
      return Mismatch(StagePath(s), "the number of layers", "0", "1 or more",
                      "or list no layers in any stage");
    }
    for (const int layer : layers) {
      if (stage_of[layer] >= 0) {
        return Mismatch(
            absl::StrCat(StagePath(s), ".layers"), "a layer",
            absl::StrCat("\"", graph.layers(layer).name(), "\""),
            absl::StrCat("one that is not in ", StagePath(stage_of[layer])),
            "every layer is in one stage");
      }
      stage_of[layer] = s;
    }
  }
  RETURN_IF_ERROR(CheckStages(graph, stage_of));
  for (int s = 0; s < pipeline.stages_size(); ++s) {
    StageCut cut;
    cut.first = static_cast<int>(pins->order.size());
    for (int l = 0; l < graph.layers_size(); ++l) {
      if (stage_of[l] == s) pins->order.push_back(l);
    }
    cut.last = static_cast<int>(pins->order.size()) - 1;
    cut.replicas = pins->replicas[s];
    pins->cuts.push_back(cut);
  }
  if (std::is_sorted(pins->order.begin(), pins->order.end())) {
    pins->order.clear();
  }
  return absl::OkStatus();
}

absl::Status ReadStages(const v1::PipelineSpec& pipeline,
                        const v1::Graph& graph, const DevicePool& pool,
                        Pins* pins) {
  std::set<int> used;
  bool shares = false;
  for (int s = 0; s < pipeline.stages_size(); ++s) {
    const v1::StageSpec& stage = pipeline.stages(s);
    if (stage.replicas() < 0) {
      return Mismatch(StagePath(s), "replicas", absl::StrCat(stage.replicas()),
                      "1 or more");
    }
    const int replicas = std::max(1, stage.replicas());
    pins->replicas.push_back(replicas);
    pins->devices.emplace_back();
    RETURN_IF_ERROR(
        ReadDevices(stage, s, replicas, pool, &used, &pins->devices.back()));
    pins->shares.emplace_back();
    RETURN_IF_ERROR(ReadShares(stage, s, replicas, &pins->shares.back()));
    shares |= !pins->shares.back().empty();
  }
  if (!shares) pins->shares.clear();
  const bool cut_here = std::any_of(
      pipeline.stages().begin(), pipeline.stages().end(),
      [](const v1::StageSpec& stage) { return !stage.layers().empty(); });
  return cut_here ? ReadLayers(pipeline, graph, pins) : absl::OkStatus();
}

absl::Status CheckLimits(const Pins& pins, const PinLimits& limits) {
  if (limits.max_stages < 0) {
    return Mismatch("max_stages", "the value", absl::StrCat(limits.max_stages),
                    "1 or more");
  }
  if (limits.max_stages > 0 && pins.stage_count > limits.max_stages) {
    return Mismatch(
        "pipeline.stages", "the number of stages",
        absl::StrCat(pins.stage_count),
        absl::StrCat("at most ", limits.max_stages, ", as max_stages says"),
        "drop one of the two");
  }
  for (size_t s = 0; limits.straight && s < pins.replicas.size(); ++s) {
    if (pins.replicas[s] == 1) continue;
    return Mismatch(StagePath(static_cast<int>(s)), "replicas",
                    absl::StrCat(pins.replicas[s]),
                    "1, since a straight pipeline was asked for",
                    "drop one of the two");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Pins> ReadPins(const v1::PipelineSpec& pipeline,
                              const v1::Graph& graph, const DevicePool& pool,
                              const PinLimits& limits) {
  Pins pins;
  RETURN_IF_ERROR(ReadInFlight(pipeline.in_flight(), &pins));
  if (pipeline.stage_count() < 0) {
    return Mismatch("pipeline.stages", "the value",
                    absl::StrCat(pipeline.stage_count()), "1 or more");
  }
  pins.stage_count = pipeline.stage_count();
  RETURN_IF_ERROR(ReadStages(pipeline, graph, pool, &pins));
  if (!pins.replicas.empty()) {
    const int listed = static_cast<int>(pins.replicas.size());
    if (pins.stage_count != 0 && pins.stage_count != listed) {
      return Mismatch("pipeline.stages", "the number of stages",
                      absl::StrCat(pins.stage_count),
                      absl::StrCat(listed, " as listed"));
    }
    pins.stage_count = listed;
  }
  if (pins.stage_count > graph.layers_size()) {
    return absl::FailedPreconditionError(
        MismatchText("pipeline.stages", "the number of stages",
                     absl::StrCat(pins.stage_count),
                     absl::StrCat("at most ", graph.layers_size(),
                                  ", the number of layers of ", graph.name()),
                     "use fewer stages"));
  }
  RETURN_IF_ERROR(CheckLimits(pins, limits));
  pins.max_stages = limits.max_stages;
  pins.straight = limits.straight;
  return pins;
}

}  // namespace pipework
