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

namespace pipework {
namespace {

constexpr int kMostInFlight = 65536;

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

absl::StatusOr<int> ReadInFlight(const std::string& text) {
  // auto is NOAM until it is chosen from profile and network.
  if (text.empty() || text == "noam" || text == "auto") return 0;
  int in_flight = 0;
  if (!absl::SimpleAtoi(text, &in_flight) || in_flight < 1 ||
      in_flight > kMostInFlight) {
    return Mismatch("pipeline.in_flight", "the value",
                    absl::StrCat("\"", text, "\""),
                    absl::StrCat("noam, auto, or 1 to ", kMostInFlight));
  }
  return in_flight;
}

absl::Status ReadStages(const v1::PipelineSpec& pipeline,
                        const v1::Graph& graph, const DevicePool& pool,
                        Pins* pins) {
  absl::flat_hash_map<std::string, int> index_of;
  for (int l = 0; l < graph.layers_size(); ++l) {
    index_of[graph.layers(l).name()] = l;
  }
  std::set<int> used;
  const bool cut_here = std::any_of(
      pipeline.stages().begin(), pipeline.stages().end(),
      [](const v1::StageSpec& stage) { return !stage.layers().empty(); });
  int next = 0;  // layer that comes next
  for (int s = 0; s < pipeline.stages_size(); ++s) {
    const v1::StageSpec& stage = pipeline.stages(s);
    ASSIGN_OR_RETURN(const std::vector<int> layers,
                     LayersOf(stage, s, index_of));
    if (layers.empty() && cut_here) {
      return Mismatch(StagePath(s), "the number of layers", "0", "1 or more",
                      "or list no layers in any stage");
    }
    if (stage.replicas() < 0) {
      return Mismatch(StagePath(s), "replicas", absl::StrCat(stage.replicas()),
                      "1 or more");
    }
    StageCut cut;
    cut.first = next;
    cut.replicas = stage.replicas() == 0 ? 1 : stage.replicas();
    for (const int layer : layers) {
      if (layer != next) {
        return Mismatch(
            absl::StrCat(StagePath(s), ".layers"), "a layer",
            absl::StrCat("\"", graph.layers(layer).name(), "\""),
            next < graph.layers_size()
                ? absl::StrCat("\"", graph.layers(next).name(), "\"")
                : "no further layer",
            "stages hold all layers of the graph in order, each once");
      }
      ++next;
    }
    cut.last = next - 1;
    if (cut_here) pins->cuts.push_back(cut);
    pins->replicas.push_back(cut.replicas);
    pins->devices.emplace_back();
    RETURN_IF_ERROR(ReadDevices(stage, s, cut.replicas, pool, &used,
                                &pins->devices.back()));
  }
  if (cut_here && next != graph.layers_size()) {
    return Mismatch(
        "pipeline.stages", "the last layer",
        absl::StrCat("\"", graph.layers(next - 1).name(), "\""),
        absl::StrCat("\"", graph.layers(graph.layers_size() - 1).name(),
                     "\", the last of the graph"),
        "stages hold all layers of the graph");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Pins> ReadPins(const v1::PipelineSpec& pipeline,
                              const v1::Graph& graph, const DevicePool& pool) {
  Pins pins;
  ASSIGN_OR_RETURN(pins.in_flight, ReadInFlight(pipeline.in_flight()));
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
  return pins;
}

}  // namespace pipework
