#include "cli/commands/server.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/json_printer.h"
#include "proto/version.h"

namespace pipework {

int NodeLs(Invocation& invocation) {
  const Output& out = *invocation.out;
  const auto client = MakeClient(invocation);
  if (!client.ok())
    return out.Error(kExitUsage, "USAGE", client.status().message());
  const auto nodes = (*client)->ListNodes();
  if (!nodes.ok()) return out.Error(nodes.status());
  out.Json(*nodes, "NodeList");
  Table table(
      {"NODE", "STATE", "DEVICE", "KIND", "CORES", ">MEMORY", "JOB", ">HEARD"});
  for (const v1::Node& node : nodes->nodes()) {
    if (out.format == OutputFormat::kName) {
      std::printf("node/%s\n", node.name().c_str());
      continue;
    }
    for (const v1::Device& device : node.devices()) {
      const auto job = node.jobs().find(device.name());
      table.Row({node.name(), node.state(), device.name(),
                 device.usable() ? device.kind()
                                 : absl::StrCat(device.kind(), " (",
                                                device.unusable_reason(), ")"),
                 absl::StrJoin(device.cores(), ","),
                 device.memory_bytes() > 0
                     ? FormatBytes(static_cast<double>(device.memory_bytes()))
                     : "-",
                 job == node.jobs().end() ? "-" : job->second,
                 FormatSeconds(node.heard_seconds_ago())});
    }
  }
  if (out.format == OutputFormat::kTable) {
    out.Text(table.ToString(Output::Width()));
  }
  return kExitOk;
}

int Health(Invocation& invocation) {
  const Output& out = *invocation.out;
  const auto client = MakeClient(invocation);
  if (!client.ok())
    return out.Error(kExitUsage, "USAGE", client.status().message());
  const auto serving = (*client)->Health(invocation.Get("service"));
  if (!serving.ok()) return out.Error(serving.status());
  const absl::string_view word = *serving ? "SERVING" : "NOT_SERVING";
  out.RawJson(absl::StrCat("{\n  \"kind\": \"Health\",\n  \"api_version\": ",
                           JsonString(kApiVersion),
                           ",\n  \"status\": ", JsonString(word), "\n}"));
  out.Text(word);
  return *serving ? kExitOk : kExitRejected;
}

int Version(Invocation& invocation) {
  const Output& out = *invocation.out;
  std::string server_version;
  std::string address;
  auto client = MakeClient(invocation);
  if (client.ok()) {
    address = (*client)->server();
    // Asked shortly: this command answers without a server too.
    Client quick({address, "", 1});
    const auto info = quick.GetServerInfo();
    if (info.ok()) server_version = info->version();
  }
  out.RawJson(absl::StrCat(
      "{\n  \"kind\": \"Version\",\n  \"api_version\": ",
      JsonString(kApiVersion), ",\n  \"pipectl\": ", JsonString(kVersion),
      ",\n  \"server\": ", JsonString(server_version), "\n}"));
  out.Text(absl::StrCat("pipectl ", kVersion));
  if (!server_version.empty()) {
    out.Text(absl::StrCat("pipecoord ", server_version, " at ", address));
    if (server_version != kVersion) {
      out.Note("warning: pipectl and pipecoord differ in version");
    }
  }
  return kExitOk;
}

}  // namespace pipework
