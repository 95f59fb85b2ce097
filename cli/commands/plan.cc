#include "cli/commands/plan.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/report.h"
#include "daemon/spec/data_facts.h"
#include "daemon/spec/spec.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "proto/text_file.h"
#include "scheduler/planning/planning.h"

namespace pipework {
namespace {

// Fallbacks for a cluster that is only described: a gigabit network, copies
// within a node at memory speed.
constexpr double kLinkBytesPerSecond = 125e6;
constexpr double kLinkLatencySeconds = 50e-6;
constexpr double kLocalBytesPerSecond = 5e9;
constexpr double kLocalLatencySeconds = 5e-6;

// "4x2": 4 nodes of 2 devices, one core each.
absl::StatusOr<v1::Topology> ParseDevices(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  int nodes = 0;
  int devices = 1;
  if (parts.size() > 2 || !absl::SimpleAtoi(parts[0], &nodes) ||
      (parts.size() == 2 && !absl::SimpleAtoi(parts[1], &devices)) ||
      nodes < 1 || devices < 1 || nodes > 1000 || devices > 1000) {
    return UsageError(Mismatch("--devices", "value",
                               absl::StrCat("\"", text, "\""),
                               "nodes x devices, such as 2x4"));
  }
  v1::Topology topology;
  for (int n = 0; n < nodes; ++n) {
    v1::Topology::Node* node = topology.add_nodes();
    node->set_name(absl::StrCat("n", n + 1));
    for (int d = 0; d < devices; ++d) {
      v1::Device* device = node->add_devices();
      device->set_name(absl::StrCat("cpu:", d));
      device->set_kind("cpu x1");
      device->set_usable(true);
      device->add_cores(d);
    }
  }
  return topology;
}

// 125MB, 1.25GB, 10e9: bytes per second.
absl::Status ParseBandwidth(const std::string& text, double* bytes) {
  absl::string_view number = text;
  double unit = 1;
  absl::ConsumeSuffix(&number, "/s");
  if (absl::ConsumeSuffix(&number, "GB")) {
    unit = 1e9;
  } else if (absl::ConsumeSuffix(&number, "MB")) {
    unit = 1e6;
  } else if (absl::ConsumeSuffix(&number, "kB")) {
    unit = 1e3;
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !(value > 0 && value < 1e15)) {
    return UsageError(Mismatch("--bandwidth", "value",
                               absl::StrCat("\"", text, "\""),
                               "bytes per second such as 125MB or 1.25GB"));
  }
  *bytes = value * unit;
  return absl::OkStatus();
}

// A file that the command line names: it must open, and hold a message.
absl::Status ReadNamed(const std::string& file,
                       google::protobuf::Message* message) {
  absl::Status status = ReadTextFile(file, message);
  return absl::IsNotFound(status) ? UsageError(std::move(status)) : status;
}

absl::StatusOr<v1::Plan> PlanHere(const Invocation& invocation,
                                  const v1::JobSpec& spec) {
  v1::Topology topology;
  if (invocation.Has("topology")) {
    RETURN_IF_ERROR(ReadNamed(invocation.Get("topology"), &topology));
  } else {
    ASSIGN_OR_RETURN(topology, ParseDevices(invocation.Get("devices", "2x2")));
  }
  if (topology.link_bytes_per_second() <= 0) {
    topology.set_link_bytes_per_second(kLinkBytesPerSecond);
    topology.set_link_latency_seconds(kLinkLatencySeconds);
  }
  if (topology.local_bytes_per_second() <= 0) {
    topology.set_local_bytes_per_second(kLocalBytesPerSecond);
    topology.set_local_latency_seconds(kLocalLatencySeconds);
  }
  if (invocation.Has("bandwidth")) {
    double bandwidth = 0;
    RETURN_IF_ERROR(ParseBandwidth(invocation.Get("bandwidth"), &bandwidth));
    topology.set_link_bytes_per_second(bandwidth);
  }
  ASSIGN_OR_RETURN(const v1::DataFacts facts, DataFactsOf(spec));
  ASSIGN_OR_RETURN(const v1::Graph graph, GraphOf(spec, EndsOf(facts)));
  v1::Profile profile;
  if (invocation.Has("profile")) {
    RETURN_IF_ERROR(ReadNamed(invocation.Get("profile"), &profile));
  } else {
    const int64_t unit = std::max<int64_t>(
        1, spec.batch().minibatch() /
               std::max<int64_t>(1, spec.batch().microbatches()));
    ASSIGN_OR_RETURN(profile, EstimateProfile(graph, unit));
  }
  PlanningOptions options;
  options.cost_model = invocation.Get("cost-model", "pipework");
  int64_t alternatives = 0;
  RETURN_IF_ERROR(
      UsageError(invocation.GetInt("alternatives", 0, &alternatives)));
  options.alternatives = static_cast<int>(std::min<int64_t>(100, alternatives));
  absl::StatusOr<v1::Plan> plan =
      PlanJob(spec, graph, profile, topology, options);
  if (absl::IsFailedPrecondition(plan.status())) {
    absl::Status infeasible = plan.status();
    SetReason("INFEASIBLE", &infeasible);
    return infeasible;
  }
  // What is not known here is a name that a flag gave.
  if (absl::IsNotFound(plan.status())) return UsageError(plan.status());
  return plan;
}

}  // namespace

int PlanCommand(Invocation& invocation) {
  const Output& out = *invocation.out;
  v1::JobSpec spec;
  std::string path;
  if (const int code =
          LoadSpec(invocation, invocation.positionals[0], &spec, &path)) {
    return code;
  }
  int64_t stages = 0;
  const absl::Status usage = invocation.GetInt("stages", 1, &stages);
  if (!usage.ok()) return out.Error(kExitUsage, "USAGE", usage.message());
  if (stages > 0) {
    spec.mutable_pipeline()->clear_stages();
    spec.mutable_pipeline()->set_stage_count(
        static_cast<int>(std::min<int64_t>(stages, 1 << 20)));
  }
  const bool here = invocation.Has("topology") || invocation.Has("devices") ||
                    invocation.Has("profile");
  absl::StatusOr<v1::Plan> plan = absl::UnknownError("");
  if (here) {
    plan = PlanHere(invocation, spec);
  } else {
    const auto client = MakeClient(invocation);
    if (!client.ok()) {
      return out.Error(kExitUsage, "USAGE", client.status().message());
    }
    v1::PlanJobRequest request;
    *request.mutable_spec() = spec;
    request.set_spec_file(path);
    plan = (*client)->PlanJob(request);
    if (absl::IsUnavailable(plan.status())) {
      out.Note(
          "hint: with --devices 2x2, --topology or --profile the plan needs no "
          "coordinator");
    }
  }
  if (!plan.ok()) {
    const bool infeasible = absl::IsFailedPrecondition(plan.status());
    const int code = SpecError(invocation, plan.status());
    return infeasible && invocation.Has("detailed-exitcode") ? kExitNeverFits
                                                             : code;
  }
  out.Json(*plan, "Plan");
  out.Text(PlanPage(*plan, spec.name(), Output::Width()));
  int rank = 2;
  for (const v1::Plan& next : plan->alternatives()) {
    out.Text(absl::StrCat("\nNumber ", rank++, ":\n",
                          PlanPage(next, spec.name(), Output::Width())));
  }
  if (!plan->feasible()) {
    return invocation.Has("detailed-exitcode") ? kExitNeverFits : kExitRejected;
  }
  return kExitOk;
}

}  // namespace pipework
