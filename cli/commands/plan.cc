#include "cli/commands/plan.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/commands/plan_inputs.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/report.h"
#include "daemon/spec/data_facts.h"
#include "daemon/spec/spec.h"
#include "partitioner/profile.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/planning/planning.h"
#include "scheduler/timeline.h"

namespace pipework {
namespace {

// The plan of `spec`, or where there is none of the first profile, whose spec
// is then filled in.
// `timeline` may be null.
absl::StatusOr<v1::Plan> PlanHere(const Invocation& invocation, bool has_spec,
                                  v1::JobSpec* spec,
                                  PlannedTimeline* timeline) {
  ASSIGN_OR_RETURN(PlanningOptions options, PlanningOptionsOf(invocation));
  ASSIGN_OR_RETURN(std::vector<v1::Profile> profiles, ProfilesOf(invocation));
  ASSIGN_OR_RETURN(
      const v1::Topology topology,
      TopologyOf(invocation,
                 profiles.empty() ? "" : profiles[0].device_kind()));
  v1::Graph graph;
  if (has_spec) {
    ASSIGN_OR_RETURN(const v1::DataFacts facts, DataFactsOf(*spec));
    ASSIGN_OR_RETURN(graph, GraphOf(*spec, EndsOf(facts)));
  } else {
    ASSIGN_OR_RETURN(*spec, SpecOfProfile(invocation, profiles[0]));
    ASSIGN_OR_RETURN(graph, GraphOfProfile(profiles[0]));
  }
  RETURN_IF_ERROR(SetPipeline(invocation, spec));
  if (profiles.empty()) {
    const int64_t unit = std::max<int64_t>(
        1, spec->batch().minibatch() /
               std::max<int64_t>(1, spec->batch().microbatches()));
    ASSIGN_OR_RETURN(v1::Profile estimate, EstimateProfile(graph, unit));
    profiles.push_back(std::move(estimate));
  }
  for (size_t i = 0; i < invocation.All("profile").size(); ++i) {
    RETURN_IF_ERROR(WithContext(invocation.All("profile")[i],
                                MakeChain(graph, profiles[i], 1).status()));
  }
  options.other_profiles.assign(profiles.begin() + 1, profiles.end());
  absl::StatusOr<v1::Plan> plan =
      PlanJob(*spec, graph, profiles[0], topology, options, timeline);
  if (absl::IsFailedPrecondition(plan.status())) {
    absl::Status infeasible = plan.status();
    SetReason("INFEASIBLE", &infeasible);
    return infeasible;
  }
  // What is not known here is a name that a flag gave.
  if (absl::IsNotFound(plan.status())) return UsageError(plan.status());
  return plan;
}

absl::StatusOr<v1::Plan> PlanThere(const Invocation& invocation,
                                   const std::string& path, v1::JobSpec* spec) {
  RETURN_IF_ERROR(SetPipeline(invocation, spec));
  ASSIGN_OR_RETURN(const PlanningOptions options,
                   PlanningOptionsOf(invocation));
  absl::StatusOr<std::unique_ptr<Client>> client = MakeClient(invocation);
  if (!client.ok()) return UsageError(client.status());
  v1::PlanJobRequest request;
  *request.mutable_spec() = *spec;
  request.set_spec_file(path);
  request.set_cost_model(options.cost_model);
  request.set_alternatives(invocation.Has("alternatives") ? options.alternatives
                                                          : -1);
  request.set_explain(options.explain);
  request.set_max_stages(options.max_stages);
  request.set_straight(options.straight);
  request.set_use_fewer_devices(options.use_fewer_devices);
  request.set_memory_limit(options.memory_limit);
  absl::StatusOr<v1::Plan> plan = (*client)->PlanJob(request);
  if (absl::IsUnavailable(plan.status())) {
    invocation.out->Note(
        "hint: with --devices 2x2, --topology or --profile the plan needs no "
        "coordinator");
  }
  return plan;
}

// UsageError: no such kind of file, or none where the plan is not made here.
absl::Status CheckTimelineFlag(const Invocation& invocation, bool here) {
  if (!invocation.Has("timeline")) return absl::OkStatus();
  const std::string file = invocation.Get("timeline");
  if (!here) {
    return UsageError(Mismatch("--timeline", "the plan", "the coordinator's",
                               "one that is made here",
                               "add --devices, --topology or --profile"));
  }
  if (file == "-" && invocation.out->format == OutputFormat::kJson) {
    return UsageError(Mismatch("--timeline", "file", "- beside -o json",
                               "the name of a file"));
  }
  for (const char* ending : {".svg", ".json", ".txt"}) {
    if (absl::EndsWith(file, ending)) return absl::OkStatus();
  }
  if (file == "-") return absl::OkStatus();
  return UsageError(Mismatch("--timeline", "file",
                             absl::StrCat("\"", file, "\""),
                             "a name ending in .svg, .json or .txt, or -"));
}

// The exit code.
int WriteTimeline(const Invocation& invocation, const std::string& job,
                  const PlannedTimeline& timeline) {
  const Output& out = *invocation.out;
  const std::string file = invocation.Get("timeline");
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  if (absl::EndsWith(file, ".svg")) {
    stream << TimelineSvg(timeline.lanes, timeline.window,
                          absl::StrCat("job ", job, ", predicted"));
  } else if (absl::EndsWith(file, ".json")) {
    stream << TimelineTrace(timeline.lanes, timeline.window);
  } else {
    stream << TimelineText(timeline.lanes, timeline.window);
  }
  stream.close();
  if (!stream) {
    return out.Error(kExitUsage, "UNWRITABLE_FILE",
                     absl::StrCat("--timeline: ", file, " cannot be written"));
  }
  out.Note(absl::StrCat("wrote ", file));
  return kExitOk;
}

// Whether `spec`, submitted now, would wait for devices that other jobs have.
// By their number and names: a plan for fewer devices counts as one.
bool WouldQueue(const v1::JobSpec& spec, const v1::ListNodesResponse& nodes) {
  int free = 0;
  absl::flat_hash_set<std::string> taken;
  for (const v1::Node& node : nodes.nodes()) {
    if (node.state() != "READY") continue;
    for (const v1::Device& device : node.devices()) {
      if (!device.usable()) continue;
      if (node.jobs().count(device.name()) == 0) {
        ++free;
      } else {
        taken.insert(absl::StrCat(node.name(), "/", device.name()));
      }
    }
  }
  int needed = std::max(1, spec.pipeline().stage_count());
  if (spec.pipeline().stages_size() > 0) needed = 0;
  for (const v1::StageSpec& stage : spec.pipeline().stages()) {
    needed += std::max({1, stage.replicas(), stage.devices_size()});
    for (const std::string& device : stage.devices()) {
      if (taken.contains(device)) return true;
    }
  }
  return needed > free;
}

int PlanDiff(Invocation& invocation) {
  const Output& out = *invocation.out;
  if (invocation.positionals.size() != 2) {
    return out.Error(kExitUsage, "USAGE",
                     absl::StrCat("plan diff: the number of jobs is ",
                                  invocation.positionals.size() - 1,
                                  ", expected 1; see pipectl plan --help"));
  }
  absl::StatusOr<JobSource> source = FindJobs(invocation);
  if (!source.ok()) return out.Error(source.status());
  const absl::StatusOr<v1::Job> job =
      source->FindJob(invocation.positionals[1]);
  if (!job.ok()) return out.Error(job.status());
  if (job->plan().stages().empty()) {
    absl::Status none = absl::FailedPreconditionError(MismatchText(
        absl::StrCat("job ", job->id()), "its plan", "not made yet",
        "one to compare with", "wait until it runs"));
    return out.Error(none);
  }
  const v1::PlanDifference difference = DifferenceOf(*job);
  out.Json(difference, "PlanDifference");
  out.Text(DifferencePage(difference, Output::Width()));
  return kExitOk;
}

}  // namespace

int PlanCommand(Invocation& invocation) {
  const Output& out = *invocation.out;
  const std::vector<std::string>& words = invocation.positionals;
  if (!words.empty() && words[0] == "diff") return PlanDiff(invocation);
  if (words.size() > 1) {
    return out.Error(kExitUsage, "USAGE",
                     absl::StrCat("plan: \"", words[1],
                                  "\" is one word too many; see pipectl plan "
                                  "--help"));
  }
  const bool has_spec = !words.empty();
  if (!has_spec && !invocation.Has("profile")) {
    return out.Error(kExitUsage, "USAGE",
                     "plan: SPEC is missing, and so is --profile; give one of "
                     "them");
  }
  if (!has_spec && invocation.Has("set")) {
    return out.Error(kExitUsage, "USAGE",
                     "--set: there is no SPEC whose field it could override; "
                     "give one, or drop --set");
  }
  if (has_spec && invocation.Has("minibatch")) {
    return out.Error(kExitUsage, "USAGE",
                     "--minibatch: a spec has a size of its own; use --set "
                     "batch.minibatch=N");
  }
  v1::JobSpec spec;
  std::string path;
  if (has_spec) {
    if (const int code = LoadSpec(invocation, words[0], &spec, &path)) {
      return code;
    }
  }
  const bool here = invocation.Has("topology") || invocation.Has("devices") ||
                    invocation.Has("profile");
  for (const char* flag : {"bandwidth", "latency"}) {
    if (here || !invocation.Has(flag)) continue;
    return out.Error(kExitUsage, "USAGE",
                     absl::StrCat("--", flag,
                                  ": the coordinator's cluster has "
                                  "links of its own; give --devices or "
                                  "--topology as well"));
  }
  if (invocation.Has("profile-batch") && !invocation.Has("profile")) {
    return out.Error(kExitUsage, "USAGE",
                     "--profile-batch: there is no --profile whose batch it "
                     "could say; give one, or drop it");
  }
  const absl::Status flag = CheckTimelineFlag(invocation, here);
  if (!flag.ok()) return out.Error(flag);
  const bool draws = invocation.Has("timeline");
  PlannedTimeline timeline;
  const absl::StatusOr<v1::Plan> plan =
      here ? PlanHere(invocation, has_spec, &spec, draws ? &timeline : nullptr)
           : PlanThere(invocation, path, &spec);
  if (!plan.ok()) {
    const bool infeasible = absl::IsFailedPrecondition(plan.status());
    const int code = SpecError(invocation, plan.status());
    return infeasible && invocation.Has("detailed-exitcode") ? kExitNeverFits
                                                             : code;
  }
  const bool to_file = draws && invocation.Get("timeline") != "-";
  if (to_file) {
    const int code = WriteTimeline(invocation, spec.name(), timeline);
    if (code != kExitOk) return code;
  }
  out.Json(*plan, "Plan");
  out.Text(PlanPage(*plan, spec.name(), Output::Width()));
  int rank = 2;
  for (const v1::Plan& next : plan->alternatives()) {
    out.Text(absl::StrCat("\nNumber ", rank++, ":\n",
                          PlanPage(next, spec.name(), Output::Width())));
  }
  if (draws && !to_file) {
    out.Text(absl::StrCat(
        "\n", TimelineText(timeline.lanes, timeline.window, Output::Width())));
  }
  if (!plan->feasible()) {
    return invocation.Has("detailed-exitcode") ? kExitNeverFits : kExitRejected;
  }
  if (has_spec && out.format == OutputFormat::kTable) {
    out.Note(
        absl::StrCat("exactly this plan: pipectl plan ... -o json > "
                     "plan.json; pipectl submit ",
                     words[0], " --plan plan.json"));
  }
  if (!here && invocation.Has("detailed-exitcode")) {
    absl::StatusOr<std::unique_ptr<Client>> client = MakeClient(invocation);
    if (!client.ok()) return out.Error(client.status());
    const auto nodes = (*client)->ListNodes();
    if (!nodes.ok()) return out.Error(nodes.status());
    if (WouldQueue(spec, *nodes)) return kExitWouldQueue;
  }
  return kExitOk;
}

}  // namespace pipework
