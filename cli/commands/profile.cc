#include "cli/commands/profile.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/plan_inputs.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/local_cluster.h"
#include "google/protobuf/text_format.h"
#include "partitioner/graph_text.h"
#include "proto/status_macros.h"
#include "proto/text_file.h"

namespace pipework {
namespace {

// A profile of a large network takes minutes where --timeout does not say
// otherwise.
constexpr double kLongestProfileSeconds = 600;

// 0.0123, 1.23, 123.4: three figures, no more than six letters.
std::string Milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  if (ms == 0) return "-";
  const int decimals =
      std::clamp(2 - static_cast<int>(std::floor(std::log10(ms))), 0, 4);
  return absl::StrFormat("%.*f", decimals, ms);
}

// 512, 1.5K, 32M: powers of 1024.
std::string ShortBytes(int64_t bytes) {
  if (bytes == 0) return "-";
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"K", "M", "G", "T"}) {
    if (value < 999.5) break;
    value /= 1024;
    unit = next;
  }
  return absl::StrFormat(value < 9.95 && *unit != '\0' ? "%.1f%s" : "%.0f%s",
                         value, unit);
}

// "linear" of "linear(out: 10)".
std::string TypeOf(const v1::LayerProfile& layer) {
  return layer.description().substr(0, layer.description().find('('));
}

std::string LayersTable(const v1::Profile& profile, int width) {
  Table table({"LAYER", "TYPE", ">FORWARD", ">BACKWARD", ">UPDATE", ">OUTPUT",
               ">PARAMS", ">SAVED", ">SCRATCH", ">SPREAD"});
  v1::LayerProfile sum;
  const auto row = [&table](const std::string& name, const std::string& type,
                            const v1::LayerProfile& costs,
                            const std::string& spread) {
    table.Row(
        {name, type, Milliseconds(costs.forward_seconds()),
         Milliseconds(costs.backward_seconds()),
         Milliseconds(costs.update_seconds()), ShortBytes(costs.output_bytes()),
         ShortBytes(costs.parameter_bytes()), ShortBytes(costs.saved_bytes()),
         ShortBytes(costs.workspace_bytes()), spread});
  };
  for (const v1::LayerProfile& layer : profile.layers()) {
    row(SafeText(layer.name()), SafeText(TypeOf(layer)), layer,
        layer.rounds() == 0 ? "-"
                            : absl::StrFormat("%.0f%%%s", 100 * layer.spread(),
                                              layer.noisy() ? "!" : ""));
    sum.set_forward_seconds(sum.forward_seconds() + layer.forward_seconds());
    sum.set_backward_seconds(sum.backward_seconds() + layer.backward_seconds());
    sum.set_update_seconds(sum.update_seconds() + layer.update_seconds());
    sum.set_output_bytes(sum.output_bytes() + layer.output_bytes());
    sum.set_parameter_bytes(sum.parameter_bytes() + layer.parameter_bytes());
    sum.set_saved_bytes(sum.saved_bytes() + layer.saved_bytes());
    sum.set_workspace_bytes(sum.workspace_bytes() + layer.workspace_bytes());
  }
  row("total", "", sum, "");
  return table.ToString(width);
}

std::string AgeText(int64_t measured_at) {
  if (measured_at == 0) return "measured at an unknown time";
  const double age =
      static_cast<double>(absl::ToUnixSeconds(absl::Now()) - measured_at);
  return absl::StrCat("measured ", FormatSeconds(std::max(0.0, age)), " ago");
}

// The page of one profile; `id` is empty for a file.
std::string ProfilePage(const std::string& id, const v1::Profile& profile,
                        bool reused, int width) {
  std::string page = absl::StrCat(
      id.empty() ? "profile" : absl::StrCat("profile ", id),
      profile.name().empty() ? "" : absl::StrCat(" of ", profile.name()), ": ",
      profile.layers_size(), " layers, ", profile.batch(), " samples a unit",
      profile.threads() > 0 ? absl::StrCat(", threads ", profile.threads())
                            : "",
      "\n");
  absl::StrAppend(&page,
                  profile.estimated()
                      ? "estimated from operations and bytes"
                      : absl::StrCat(reused ? "reused: " : "",
                                     AgeText(profile.measured_at())),
                  profile.measured_on().empty()
                      ? ""
                      : absl::StrCat(" on ", profile.measured_on()),
                  profile.device_kind().empty()
                      ? ""
                      : absl::StrCat(" (", profile.device_kind(), ")"),
                  "\n\n", LayersTable(profile, width),
                  "\ntimes in milliseconds, bytes in powers of 1024; spread: "
                  "range of the\nmiddle half of rounds over their median\n");
  if (profile.label_bytes() > 0 || profile.action_seconds() > 0) {
    absl::StrAppend(
        &page, "labels ", ShortBytes(profile.label_bytes()), ", samples ",
        ShortBytes(profile.input_bytes()), " a unit; an action costs ",
        Milliseconds(profile.action_seconds()), " ms beside computing\n");
  }
  bool noisy = false;
  for (const v1::LayerProfile& layer : profile.layers()) {
    noisy = noisy || layer.noisy();
  }
  if (noisy) {
    page += "!: moved too much between rounds to be relied on\n";
  }
  if (profile.noisy()) {
    page +=
        "noisy: the device was busy with something else; it is measured once "
        "more\nbefore a job is planned with it\n";
  }
  return page;
}

std::string LinksText(const v1::Topology& topology) {
  std::string text;
  for (const v1::Topology::NodeLink& link : topology.links()) {
    absl::StrAppend(&text, "link ", link.a(), " - ", link.b(), ": ",
                    FormatBytes(link.bytes_per_second()), "/s, ",
                    FormatSeconds(link.latency_seconds()), " a message",
                    link.measured() ? " (measured)" : "", "\n");
  }
  return text;
}

absl::Status WriteProfile(const std::string& file, const v1::Profile& profile) {
  if (file != "-") return UsageError(WriteTextFile(file, profile));
  std::string text;
  google::protobuf::TextFormat::PrintToString(profile, &text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

bool NamesFile(const std::string& ref) {
  return absl::StrContains(ref, '/') || absl::StrContains(ref, '.') ||
         !absl::StartsWith(ref, "p-");
}

// With a longer patience than that of a quick call.
absl::StatusOr<Client::Options> PatientOptions(const Invocation& invocation) {
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client, MakeClient(invocation));
  Client::Options options = client->options();
  if (!invocation.Has("timeout")) {
    options.timeout_seconds = kLongestProfileSeconds;
  }
  return options;
}

// On the cluster that answers; where nobody does and none was named, on one of
// this machine, whose state folder keeps the profile for the next run.
absl::StatusOr<v1::RunProfileResponse> RunAnywhere(
    const Invocation& invocation, const v1::RunProfileRequest& request) {
  ASSIGN_OR_RETURN(Client::Options options, PatientOptions(invocation));
  Client::Options quick = options;
  quick.timeout_seconds = 2;
  const absl::Status there = Client(quick).GetServerInfo().status();
  if (!absl::IsUnavailable(there) || invocation.Has("server")) {
    return Client(options).RunProfile(request);
  }
  LocalCluster::Options local;
  local.state_dir = StateDir(invocation);
  local.nodes = 2;
  local.devices_per_node = 1;
  invocation.out->Note(absl::StrCat(
      "no coordinator answers at ", options.server,
      ": measured on a cluster of this machine, kept in ", local.state_dir));
  CatchInterrupts();
  ASSIGN_OR_RETURN(std::unique_ptr<LocalCluster> cluster,
                   LocalCluster::Start(local));
  options.server = cluster->server();
  options.token.clear();
  absl::StatusOr<v1::RunProfileResponse> response =
      Client(options).RunProfile(request);
  cluster->Stop(15);
  return response;
}

}  // namespace

int ProfileRun(Invocation& invocation) {
  const Output& out = *invocation.out;
  v1::RunProfileRequest request;
  std::string path;
  if (const int code = LoadSpec(invocation, invocation.positionals[0],
                                request.mutable_spec(), &path)) {
    return code;
  }
  request.set_spec_file(path);
  request.set_device_kind(invocation.Get("device-class"));
  request.set_again(invocation.Has("again"));
  const auto response = RunAnywhere(invocation, request);
  if (!response.ok()) return SpecError(invocation, response.status());

  // The profile itself goes to standard output, and nothing else.
  const bool piped = invocation.Get("out") == "-";
  if (!piped) out.Json(*response, "ProfileList");
  int number = 0;
  for (const v1::StoredProfile& stored : response->profiles()) {
    if (out.format == OutputFormat::kName && !piped) {
      std::printf("profile/%s\n", stored.id().c_str());
    }
    if (number > 0 && !piped) out.Text("");
    if (!piped) {
      out.Text(ProfilePage(stored.id(), stored.profile(), stored.reused(),
                           Output::Width()));
    }
    ++number;
    if (!invocation.Has("out")) continue;
    // One file for each kind of device.
    std::string file = invocation.Get("out");
    if (number > 1 && file != "-") absl::StrAppend(&file, "-", number);
    const absl::Status written = WriteProfile(file, stored.profile());
    if (!written.ok()) return out.Error(written);
    if (!piped) {
      out.Note(absl::StrCat(file, ": the profile of ",
                            stored.profile().device_kind()));
    }
  }
  const std::string links = LinksText(response->topology());
  if (!links.empty() && !piped) out.Text(absl::StrCat("\n", links));
  return kExitOk;
}

int ProfileLs(Invocation& invocation) {
  const Output& out = *invocation.out;
  const auto client = MakeClient(invocation);
  if (!client.ok()) {
    return out.Error(kExitUsage, "USAGE", client.status().message());
  }
  auto list = (*client)->ListProfiles();
  if (!list.ok()) return out.Error(list.status());
  auto& all = *list->mutable_profiles();
  all.erase(std::remove_if(
                all.begin(), all.end(),
                [&](const v1::StoredProfile& stored) {
                  const auto other = [&](const char* flag,
                                         const std::string& is) {
                    return invocation.Has(flag) && invocation.Get(flag) != is;
                  };
                  return other("model", stored.profile().name()) ||
                         other("device-class", stored.profile().device_kind());
                }),
            all.end());
  out.Json(*list, "ProfileList");
  Table table({"PROFILE", "NETWORK", ">LAYERS", ">BATCH", ">FORWARD",
               ">BACKWARD", "KIND", "ON", ">AGE", "NOISY"});
  for (const v1::StoredProfile& stored : list->profiles()) {
    const v1::Profile& profile = stored.profile();
    if (out.format == OutputFormat::kName) {
      std::printf("profile/%s\n", stored.id().c_str());
      continue;
    }
    table.Row({stored.id(), SafeText(profile.name()),
               absl::StrCat(stored.layers()), absl::StrCat(profile.batch()),
               Milliseconds(stored.forward_seconds()),
               Milliseconds(stored.backward_seconds()), profile.device_kind(),
               profile.measured_on().empty() ? "-" : profile.measured_on(),
               profile.measured_at() == 0
                   ? "-"
                   : FormatSeconds(static_cast<double>(
                         std::max<int64_t>(0, absl::ToUnixSeconds(absl::Now()) -
                                                  profile.measured_at()))),
               profile.noisy() ? "yes" : "-"});
  }
  if (out.format == OutputFormat::kTable) {
    out.Text(list->profiles_size() == 0
                 ? "no profiles; pipectl profile run SPEC measures one\n"
                 : table.ToString(Output::Width()));
  }
  return kExitOk;
}

int ProfileShow(Invocation& invocation) {
  const Output& out = *invocation.out;
  const std::string& ref = invocation.positionals[0];
  v1::StoredProfile stored;
  if (NamesFile(ref)) {
    const auto text = ReadNamedFile(ref, kMostTextFileBytes);
    if (!text.ok()) return out.Error(text.status());
    absl::StatusOr<v1::Profile> profile = ParseProfile(*text, ref);
    if (!profile.ok()) return out.Error(profile.status());
    stored.set_layers(profile->layers_size());
    for (const v1::LayerProfile& layer : profile->layers()) {
      stored.set_forward_seconds(stored.forward_seconds() +
                                 layer.forward_seconds());
      stored.set_backward_seconds(stored.backward_seconds() +
                                  layer.backward_seconds());
    }
    *stored.mutable_profile() = *std::move(profile);
  } else {
    const auto client = MakeClient(invocation);
    if (!client.ok()) {
      return out.Error(kExitUsage, "USAGE", client.status().message());
    }
    auto found = (*client)->GetProfile(ref);
    if (!found.ok()) return out.Error(found.status());
    stored = *std::move(found);
  }
  if (invocation.Has("out")) {
    const absl::Status written =
        WriteProfile(invocation.Get("out"), stored.profile());
    if (!written.ok()) return out.Error(written);
    return kExitOk;
  }
  out.Json(stored, "Profile");
  out.Text(ProfilePage(stored.id(), stored.profile(), /*reused=*/false,
                       Output::Width()));
  return kExitOk;
}

int ProfileRm(Invocation& invocation) {
  const Output& out = *invocation.out;
  const auto client = MakeClient(invocation);
  if (!client.ok()) {
    return out.Error(kExitUsage, "USAGE", client.status().message());
  }
  for (const std::string& id : invocation.positionals) {
    const absl::Status removed = (*client)->DeleteProfile(id);
    if (!removed.ok()) return out.Error(removed);
    out.Note(absl::StrCat("profile ", id, " is forgotten"));
  }
  return kExitOk;
}

}  // namespace pipework
