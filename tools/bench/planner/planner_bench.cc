// planner_bench [PROFILES [COST_MODEL]]: processor seconds that planning takes.
//
// PROFILES is a folder of NAME/graph.txt (testdata/profiles), COST_MODEL one of
// cost_model.h (pipework).
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "partitioner/algorithms/pipedream_dp.h"
#include "partitioner/profile.h"
#include "proto/status_macros.h"
#include "scheduler/planning/planning.h"
#include "tools/bench/planner/cases.h"

namespace pipework {
namespace {

constexpr char kRow[] = "%-26s %6s %13s %7s %9s %11s\n";

// From a profile to stages.
absl::Status Plan(const std::string& name,
                  const std::function<absl::StatusOr<LayerGraph>()>& read,
                  const std::vector<int>& components, const CostModel* model) {
  const std::clock_t begin = std::clock();
  ASSIGN_OR_RETURN(const LayerGraph graph, read());
  const StateGraph states = MakeStates(graph, StateOptions());
  const std::vector<Level> levels = Levels(components);
  ASSIGN_OR_RETURN(const Partition partition,
                   PipedreamDp(InputOf(states, levels, model)));
  const double seconds =
      static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  char took[32];
  char best[32];
  std::snprintf(took, sizeof took, "%.3f", seconds);
  std::snprintf(best, sizeof best, "%.3f", partition.seconds * 1e3);
  std::printf(kRow, name.c_str(), std::to_string(states.size()).c_str(),
              LevelsText(levels).c_str(),
              std::to_string(partition.workers.size()).c_str(), took, best);
  return absl::OkStatus();
}

// As `pipectl plan --explain` does: rivals, depths, explanation and all.
absl::Status WholePlan(const std::string& name,
                       const std::function<absl::StatusOr<LayerGraph>()>& read,
                       const std::vector<int>& components,
                       const std::string& model) {
  const std::clock_t begin = std::clock();
  ASSIGN_OR_RETURN(const LayerGraph layers, read());
  const v1::Profile profile = ProfileOf(layers);
  ASSIGN_OR_RETURN(const v1::Graph graph, GraphOfProfile(profile));
  v1::JobSpec spec;
  spec.mutable_batch()->set_minibatch(1);
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_pipeline()->set_schedule("1f1b");
  const std::vector<Level> levels = Levels(components);
  PlanningOptions options;
  options.cost_model = model;
  options.explain = true;
  ASSIGN_OR_RETURN(const v1::Plan plan,
                   PlanJob(spec, graph, profile, TopologyOf(levels), options));
  const double seconds =
      static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  char took[32];
  char step[32];
  std::snprintf(took, sizeof took, "%.3f", seconds);
  std::snprintf(step, sizeof step, "%.3f", plan.predicted_step_ms());
  std::printf(kRow, name.c_str(), std::to_string(layers.size()).c_str(),
              LevelsText(levels).c_str(),
              std::to_string(plan.stages_size()).c_str(), took, step);
  std::fflush(stdout);
  return absl::OkStatus();
}

void Heading(const char* title) {
  std::printf("\n%s\n", title);
  std::printf(kRow, "graph", "states", "devices", "stages", "seconds",
              "ms a batch");
}

absl::Status Profiles(const std::string& folder, const CostModel* model,
                      const std::string& whole_model) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.insert(entry.path().filename().string());
  }
  if (error) {
    return absl::NotFoundError(folder + ": " + error.message() +
                               "; give the folder of profiles");
  }
  Heading(model != nullptr ? "Published profiles"
                           : "Published profiles, the whole plan (layers)");
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name + "/graph.txt";
    const auto read = [&path] {
      std::stringstream text;
      text << std::ifstream(path).rdbuf();
      return GraphOfText(text.str(), path);
    };
    if (model != nullptr) {
      RETURN_IF_ERROR(Plan(name, read, {4, 4}, model));
    } else {
      RETURN_IF_ERROR(WholePlan(name, read, {4, 4}, whole_model));
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const std::string& folder, const std::string& model_name) {
  ASSIGN_OR_RETURN(const CostModel* model, FindCostModel(model_name));
  const auto branches = [](int layers) {
    return [layers] { return TwoBranches(layers); };
  };
  const auto chain = [](int layers) {
    return [layers] { return Chain(layers); };
  };
  RETURN_IF_ERROR(Profiles(folder, nullptr, model_name));
  Heading("Promised, the whole plan (layers)");
  RETURN_IF_ERROR(
      WholePlan("two branches of 38", branches(38), {4, 4}, model_name));
  RETURN_IF_ERROR(WholePlan("300 layers", chain(300), {8, 16, 8}, model_name));
  RETURN_IF_ERROR(Profiles(folder, model, model_name));
  Heading("Promised");
  RETURN_IF_ERROR(Plan("two branches of 38", branches(38), {4, 4}, model));
  RETURN_IF_ERROR(Plan("300 layers", chain(300), {8, 16, 8}, model));
  Heading("Growth with states");
  for (const int layers : {6, 12, 18, 27, 38, 48}) {
    RETURN_IF_ERROR(Plan("two branches of " + std::to_string(layers),
                         branches(layers), {4, 4}, model));
  }
  for (const int layers : {75, 150, 300, 600}) {
    RETURN_IF_ERROR(Plan(std::to_string(layers) + " layers", chain(layers),
                         {8, 16, 8}, model));
  }
  Heading("Growth with devices");
  const std::vector<std::vector<int>> clusters = {
      {16},   {64},    {1024},     {4, 4},     {8, 2},
      {8, 8}, {8, 32}, {8, 16, 8}, {8, 16, 32}};
  for (const std::vector<int>& components : clusters) {
    RETURN_IF_ERROR(Plan("300 layers", chain(300), components, model));
  }
  for (const std::vector<int>& components : clusters) {
    if (components.size() != 2) continue;
    RETURN_IF_ERROR(
        Plan("two branches of 27", branches(27), components, model));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace pipework

int main(int argc, char** argv) {
  const absl::Status status =
      pipework::Run(argc > 1 ? argv[1] : "testdata/profiles",
                    argc > 2 ? argv[2] : "pipework");
  if (status.ok()) return 0;
  std::fprintf(stderr, "planner_bench: %s\n",
               std::string(status.message()).c_str());
  return 2;
}
