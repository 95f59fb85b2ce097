#include "cli/commands/plan_inputs.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/spec/data_facts.h"
#include "daemon/spec/spec.h"
#include "google/protobuf/util/json_util.h"
#include "partitioner/cost_model.h"
#include "partitioner/graph_text.h"
#include "proto/errors.h"
#include "proto/size_text.h"
#include "proto/status_macros.h"
#include "proto/text_file.h"
#include "scheduler/planning/topology.h"

namespace pipework {
namespace {

constexpr int64_t kMostPlanBytes = 64 << 20;
constexpr int64_t kMostSamples = 1 << 30;
constexpr int64_t kMostStages = 1 << 16;
constexpr int64_t kMostInFlight = 1 << 16;
constexpr int64_t kMostAlternatives = 100;
constexpr size_t kMostShown = 60;  // bytes of a file's text in an error

// The whole number of `flag` into `value`, which stays where it is not given.
absl::Status GetNumber(const Invocation& invocation, absl::string_view flag,
                       int64_t least, int64_t most, int64_t* value) {
  if (!invocation.Has(flag)) return absl::OkStatus();
  const std::string text = invocation.Get(flag);
  if (absl::SimpleAtoi(text, value) && *value >= least && *value <= most) {
    return absl::OkStatus();
  }
  return UsageError(Mismatch(absl::StrCat("--", flag), "value",
                             absl::StrCat("\"", SafeText(text), "\""),
                             absl::StrCat(least, " to ", most)));
}

// "2x4": 2 nodes of 4 devices, as levels "4,2"; empty: it is not of that form.
absl::StatusOr<std::string> CountsOfGrid(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  if (parts.size() == 1) return std::string();
  int nodes = 0;
  int devices = 0;
  if (parts.size() > 2 || !absl::SimpleAtoi(parts[0], &nodes) ||
      !absl::SimpleAtoi(parts[1], &devices) || nodes < 1 || devices < 1) {
    return UsageError(Mismatch("--devices", "value",
                               absl::StrCat("\"", text, "\""),
                               "nodes x devices, such as 2x4, or levels from "
                               "the innermost out, such as 4,2"));
  }
  return absl::StrCat(devices, ",", nodes);
}

// --bandwidth and --latency as those between nodes.
absl::Status SetNodeLinks(const Invocation& invocation,
                          v1::Topology* topology) {
  const bool leveled = topology->levels_size() > 1;
  if (invocation.Has("bandwidth")) {
    const auto speed = ParseBandwidth(invocation.Get("bandwidth"));
    if (!speed.ok()) return UsageError(speed.status());
    topology->set_link_bytes_per_second(*speed);
    if (leveled) topology->mutable_levels(1)->set_bytes_per_second(*speed);
  }
  if (invocation.Has("latency")) {
    const auto seconds = ParseLatency(invocation.Get("latency"));
    if (!seconds.ok()) return UsageError(seconds.status());
    topology->set_link_latency_seconds(*seconds);
    if (leveled) topology->mutable_levels(1)->set_latency_seconds(*seconds);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Topology> TopologyOfFile(const Invocation& invocation) {
  const std::string file = invocation.Get("topology");
  if (invocation.Has("devices")) {
    return UsageError(Mismatch(
        "--devices", "value",
        absl::StrCat("\"", invocation.Get("devices"), "\" beside --topology"),
        "one of the two"));
  }
  ASSIGN_OR_RETURN(const std::string text,
                   ReadNamedFile(file, kMostTextFileBytes));
  v1::Topology topology;
  RETURN_IF_ERROR(ParseText(text, file, &topology));
  RETURN_IF_ERROR(SetNodeLinks(invocation, &topology));
  absl::StatusOr<v1::Topology> expanded = ExpandTopology(topology);
  if (!expanded.ok()) return WithContext(file, expanded.status());
  return expanded;
}

// The pinned stages of `spec` have every layer of its graph and no other; OK
// where the data, and so the graph, is not on this machine.
absl::Status CheckLayers(const std::string& file, const v1::JobSpec& spec) {
  const absl::StatusOr<v1::DataFacts> facts = DataFactsOf(spec);
  if (!facts.ok()) return absl::OkStatus();
  const absl::StatusOr<v1::Graph> graph = GraphOf(spec, EndsOf(*facts));
  if (!graph.ok()) return absl::OkStatus();
  std::set<std::string> missing;
  for (const v1::Layer& layer : graph->layers()) missing.insert(layer.name());
  for (int s = 0; s < spec.pipeline().stages_size(); ++s) {
    for (const std::string& layer : spec.pipeline().stages(s).layers()) {
      if (missing.erase(layer) == 1) continue;
      return Mismatch(
          absl::StrCat(file, ": stages[", s, "]"), "a layer",
          absl::StrCat("\"", SafeText(layer.substr(0, kMostShown)), "\""),
          "a layer of the spec's network", "plan this spec again");
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return Mismatch(file, "the stage of layer \"" + *missing.begin() + "\"",
                  "not given", "one of them", "plan this spec again");
}

}  // namespace

absl::StatusOr<std::string> ReadNamedFile(const std::string& file,
                                          int64_t most) {
  if (file.empty()) {
    return UsageError(absl::InvalidArgumentError(
        "the name of a file is empty, expected one that can be opened"));
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(
      std::fopen(file.c_str(), "rb"), &std::fclose);
  if (in == nullptr) {
    return UsageError(absl::NotFoundError(
        absl::StrCat(file, ": cannot be opened: ", std::strerror(errno))));
  }
  std::string text;
  std::vector<char> block(64 << 10);
  size_t got = 0;
  while ((got = std::fread(block.data(), 1, block.size(), in.get())) > 0) {
    text.append(block.data(), got);
    if (static_cast<int64_t>(text.size()) > most) {
      return Mismatch(file, "its size", absl::StrCat("over ", most, " bytes"),
                      absl::StrCat("at most ", most));
    }
  }
  if (std::ferror(in.get()) != 0) {
    return UsageError(absl::NotFoundError(
        absl::StrCat(file, ": cannot be read: ", std::strerror(errno))));
  }
  return text;
}

absl::StatusOr<v1::Topology> TopologyOf(const Invocation& invocation,
                                        const std::string& profile_kind) {
  if (invocation.Has("topology")) return TopologyOfFile(invocation);
  const std::string devices = invocation.Get("devices", "2x2");
  ASSIGN_OR_RETURN(const std::string grid, CountsOfGrid(devices));
  // Of a grid, one bandwidth is that between nodes.
  const bool one_link = !grid.empty() &&
                        !absl::StrContains(invocation.Get("bandwidth"), ',') &&
                        !absl::StrContains(invocation.Get("latency"), ',');
  absl::StatusOr<v1::Topology> topology =
      LevelsOf(grid.empty() ? devices : grid,
               one_link ? "" : invocation.Get("bandwidth"),
               one_link ? "" : invocation.Get("latency"));
  if (!topology.ok()) return UsageError(topology.status());
  if (one_link) RETURN_IF_ERROR(SetNodeLinks(invocation, &*topology));
  if (!profile_kind.empty() && !absl::StartsWith(profile_kind, "cpu")) {
    topology->mutable_device()->set_name("cuda");
    topology->mutable_device()->set_kind(profile_kind);
  }
  return ExpandTopology(*topology);
}

absl::StatusOr<std::vector<v1::Profile>> ProfilesOf(
    const Invocation& invocation) {
  int64_t batch = 0;
  RETURN_IF_ERROR(
      GetNumber(invocation, "profile-batch", 1, kMostSamples, &batch));
  std::vector<v1::Profile> profiles;
  std::map<std::string, std::string> files;  // by kind of device
  for (const std::string& file : invocation.All("profile")) {
    ASSIGN_OR_RETURN(const std::string text,
                     ReadNamedFile(file, kMostTextFileBytes));
    ASSIGN_OR_RETURN(v1::Profile profile, ParseProfile(text, file));
    // Only a graph.txt does not know.
    if (batch > 0 && !profile.source().empty()) profile.set_batch(batch);
    const auto [known, fresh] = files.emplace(profile.device_kind(), file);
    if (!fresh) {
      return Mismatch(file, "its device_kind",
                      absl::StrCat("\"", SafeText(profile.device_kind()),
                                   "\", as in ", known->second),
                      "another kind", "give one profile of each kind");
    }
    if (profile.name().empty()) {
      const std::filesystem::path path(file);
      const std::string stem = path.stem().string();
      const std::string folder = path.parent_path().filename().string();
      profile.set_name(stem == "graph" && !folder.empty() ? folder : stem);
    }
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

absl::StatusOr<PlanningOptions> PlanningOptionsOf(
    const Invocation& invocation) {
  PlanningOptions options;
  options.cost_model = invocation.Get("cost-model", "pipework");
  RETURN_IF_ERROR(UsageError(
      WithContext("--cost-model", FindCostModel(options.cost_model).status())));
  int64_t alternatives = 0;
  RETURN_IF_ERROR(GetNumber(invocation, "alternatives", 0, kMostAlternatives,
                            &alternatives));
  options.alternatives = static_cast<int>(alternatives);
  int64_t max_stages = 0;
  RETURN_IF_ERROR(
      GetNumber(invocation, "max-stages", 1, kMostStages, &max_stages));
  options.max_stages = static_cast<int>(max_stages);
  options.straight = invocation.Has("straight");
  options.use_fewer_devices = invocation.Has("use-fewer-devices");
  options.explain = invocation.Has("explain");
  if (invocation.Has("memory-limit")) {
    const auto limit =
        ParseSize("--memory-limit", invocation.Get("memory-limit"));
    if (!limit.ok()) return UsageError(limit.status());
    options.memory_limit = *limit;
  }
  return options;
}

absl::StatusOr<v1::JobSpec> SpecOfProfile(const Invocation& invocation,
                                          const v1::Profile& profile) {
  v1::JobSpec spec;
  spec.set_name(profile.name());
  int64_t minibatch = std::max<int64_t>(1, profile.batch());
  RETURN_IF_ERROR(
      GetNumber(invocation, "minibatch", 1, kMostSamples, &minibatch));
  spec.mutable_batch()->set_minibatch(minibatch);
  spec.mutable_batch()->set_microbatches(1);
  spec.mutable_batch()->set_accumulate(1);
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_pipeline()->set_schedule("1f1b");
  spec.set_threads_per_executor(1);
  return spec;
}

absl::Status SetPipeline(const Invocation& invocation, v1::JobSpec* spec) {
  v1::PipelineSpec* pipeline = spec->mutable_pipeline();
  int64_t stages = 0;
  RETURN_IF_ERROR(GetNumber(invocation, "stages", 1, kMostStages, &stages));
  if (stages > 0) {
    pipeline->clear_stages();
    pipeline->set_stage_count(static_cast<int>(stages));
  }
  if (invocation.Has("in-flight")) {
    const std::string text = invocation.Get("in-flight");
    int64_t number = 0;
    if (text != "noam" && text != "auto" &&
        (!absl::SimpleAtoi(text, &number) || number < 1 ||
         number > kMostInFlight)) {
      return UsageError(Mismatch(
          "--in-flight", "value", absl::StrCat("\"", SafeText(text), "\""),
          absl::StrCat("noam, auto, or 1 to ", kMostInFlight)));
    }
    pipeline->set_in_flight(text);
  }
  return absl::OkStatus();
}

absl::Status PinPlan(const std::string& file, v1::JobSpec* spec) {
  ASSIGN_OR_RETURN(const std::string text, ReadNamedFile(file, kMostPlanBytes));
  v1::Plan plan;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // "kind", and keys of later versions
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(text, &plan, options);
  if (!parsed.ok()) {
    std::string cause(parsed.message());
    cause = cause.substr(0, cause.find('\n'));
    return Mismatch(file, "its content",
                    absl::StrCat("not readable (", SafeText(cause), ")"),
                    "the object that pipectl plan -o json prints");
  }
  if (!plan.feasible() || plan.stages().empty()) {
    return Mismatch(file, "its plan",
                    plan.stages().empty() ? "without stages" : "not feasible",
                    "a feasible one", "print one: pipectl plan SPEC -o json");
  }
  if (plan.in_flight() < 0) {
    return Mismatch(file, "its in_flight", absl::StrCat(plan.in_flight()),
                    "1 or more");
  }
  v1::PipelineSpec* pipeline = spec->mutable_pipeline();
  const int microbatches =
      std::max(1, static_cast<int>(spec->batch().microbatches()));
  const struct {
    absl::string_view what;
    std::string got, wanted;
  } pairs[] = {
      {"its schedule", plan.schedule(), pipeline->schedule()},
      {"its weights", plan.weights(), pipeline->weights()},
      {"its number of microbatches",
       absl::StrCat(std::max(1, plan.microbatches())),
       absl::StrCat(microbatches)},
  };
  for (const auto& pair : pairs) {
    if (pair.got.empty() || pair.wanted.empty() || pair.got == pair.wanted) {
      continue;
    }
    return Mismatch(file, pair.what, SafeText(pair.got.substr(0, kMostShown)),
                    absl::StrCat(pair.wanted, ", that of the spec"),
                    "plan this spec again");
  }
  pipeline->clear_stages();
  pipeline->clear_stage_count();
  std::set<std::string> layers;
  for (int s = 0; s < plan.stages_size(); ++s) {
    const v1::PlanStage& from = plan.stages(s);
    const std::string who = absl::StrCat(file, ": stages[", s, "]");
    if (from.layers().empty()) {
      return Mismatch(who, "its number of layers", "0", "1 or more");
    }
    if (from.replicas() < 0) {
      return Mismatch(who, "its number of replicas",
                      absl::StrCat(from.replicas()), "1 or more");
    }
    for (const std::string& layer : from.layers()) {
      if (layers.insert(layer).second) continue;
      return Mismatch(
          who,
          absl::StrCat("layer \"", SafeText(layer.substr(0, kMostShown)), "\""),
          "there twice", "each layer in one stage");
    }
    v1::StageSpec* stage = pipeline->add_stages();
    *stage->mutable_layers() = from.layers();
    stage->set_replicas(std::max(1, from.replicas()));
    *stage->mutable_devices() = from.devices();
    *stage->mutable_shares() = from.shares();
  }
  if (plan.in_flight() > 0) {
    pipeline->set_in_flight(absl::StrCat(plan.in_flight()));
  }
  return CheckLayers(file, *spec);
}

absl::Status PlaceInPlan(const std::string& file, absl::Status status) {
  std::vector<v1::Problem> problems = ProblemsOf(status);
  for (v1::Problem& problem : problems) {
    absl::string_view field = problem.field();
    if (!absl::ConsumePrefix(&field, "pipeline.") ||
        !(absl::StartsWith(field, "stages") || field == "in_flight")) {
      continue;
    }
    problem.set_field(std::string(field));
    problem.set_file(file);
  }
  if (!problems.empty()) SetProblems(problems, &status);
  return status;
}

}  // namespace pipework
