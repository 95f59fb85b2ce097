#include "daemon/coordinator/cluster.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/version.h"

namespace pipework {
namespace {

// What a cost model is told of links that were not measured. On loopback (one
// stream of the data plane: 3 GB/s, 11 us a way); between machines a 10 Gbit/s
// network.
constexpr double kLoopbackBytesPerSecond = 3e9;
constexpr double kLoopbackLatencySeconds = 30e-6;
constexpr double kNetworkBytesPerSecond = 1.17e9;
constexpr double kNetworkLatencySeconds = 100e-6;
// Within a runner a tensor is handed over without a copy.
constexpr double kLocalBytesPerSecond = 20e9;
constexpr double kLocalLatencySeconds = 5e-6;

// Every pair of nodes is measured in a cluster of up to so many.
constexpr int kMostNodesInPairs = 8;

// Behind the id of a job whose runner was not seen to end.
constexpr char kStranded[] = " (ending)";

std::string DeviceKey(absl::string_view node, absl::string_view device) {
  return absl::StrCat(node, "/", device);
}

std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

bool GoodName(absl::string_view name) {
  if (name.empty() || name.size() > 63) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

}  // namespace

const char* LeaseStateName(LeaseState state) {
  switch (state) {
    case LeaseState::kReady:
      return "READY";
    case LeaseState::kSuspect:
      return "SUSPECT";
    case LeaseState::kLost:
      return "LOST";
  }
  return "UNKNOWN";
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || absl::StartsWith(host, "127.") ||
         host == "::1" || host == "[::1]";
}

absl::StatusOr<Cluster::Registration> Cluster::Register(const v1::Hello& hello,
                                                        absl::Time now) {
  const std::string who = absl::StrCat("node ", hello.node());
  if (!GoodName(hello.node()) || hello.node() == "." || hello.node() == "..") {
    return Mismatch("node", "its name", absl::StrCat("\"", hello.node(), "\""),
                    "1 to 63 letters, digits, '-', '_' or '.'",
                    "give another with --name");
  }
  if (hello.version() != kVersion) {
    return Mismatch(who, "its version", hello.version(), kVersion,
                    "install the same version of Pipework on every machine");
  }
  std::set<std::string> names;
  for (const v1::Device& device : hello.devices()) {
    if (!names.insert(device.name()).second) {
      return Mismatch(who, "its device list",
                      absl::StrCat(device.name(), " twice"),
                      "each device once");
    }
  }
  Node& node = nodes_[hello.node()];
  const bool same = node.ever_here || node.hello.incarnation() != 0
                        ? node.hello.incarnation() == hello.incarnation()
                        : true;
  if (!same && node.session != 0 && node.state == LeaseState::kReady) {
    return absl::AlreadyExistsError(absl::StrCat(
        who, ": another daemon of this name is connected and was heard ",
        Seconds(now - node.heard), " ago; give one of them another --name"));
  }
  Registration registration;
  registration.session = next_session_++;
  registration.restarted = !same;
  node.hello = hello;
  node.state = LeaseState::kReady;
  node.session = registration.session;
  node.leaving = false;
  node.ever_here = true;
  node.heard = now;
  node.closed_at = absl::InfiniteFuture();
  return registration;
}

void Cluster::Expect(const std::string& name, uint64_t incarnation,
                     absl::Time now) {
  Node& node = nodes_[name];
  node.hello.set_node(name);
  node.hello.set_incarnation(incarnation);
  node.state = LeaseState::kSuspect;
  node.heard = now;
}

bool Cluster::Heard(const std::string& name, uint64_t session, absl::Time now) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end() || it->second.session != session || session == 0) {
    return false;
  }
  it->second.heard = std::max(it->second.heard, now);
  if (it->second.state == LeaseState::kSuspect && !it->second.leaving) {
    it->second.state = LeaseState::kReady;
  }
  return it->second.state != LeaseState::kLost;
}

void Cluster::SetLeaving(const std::string& name) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end() || it->second.state == LeaseState::kLost) return;
  it->second.leaving = true;
  it->second.state = LeaseState::kSuspect;
}

void Cluster::SessionClosed(const std::string& name, uint64_t session,
                            absl::Time now) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end() || it->second.session != session || session == 0) {
    return;
  }
  Node& node = it->second;
  node.session = 0;
  if (now >= excused_until_) node.closed_at = now;
  if (node.state == LeaseState::kReady) node.state = LeaseState::kSuspect;
}

void Cluster::Forgive(absl::Duration nap, absl::Time now) {
  for (auto& [name, node] : nodes_) {
    node.heard = std::min(node.heard + nap, now);
    node.closed_at = absl::InfiniteFuture();
  }
  excused_until_ = now + limits_.lost;
}

std::vector<Cluster::LostNode> Cluster::Tick(absl::Time now) {
  std::vector<LostNode> lost;
  for (auto& [name, node] : nodes_) {
    if (node.state == LeaseState::kLost) continue;
    const absl::Duration silent = now - node.heard;
    std::string why;
    if (node.leaving && node.session == 0) {
      why = absl::StrCat("node ", name, ": its daemon was shut down");
    } else if (node.session == 0 && now - node.closed_at >= limits_.closed) {
      why = absl::StrCat("node ", name,
                         ": its daemon closed the connection and did not come "
                         "back within ",
                         Seconds(limits_.closed), "; it was killed or crashed");
    } else if (silent >= limits_.lost) {
      why =
          node.ever_here
              ? absl::StrCat("node ", name, ": no heartbeat for ",
                             Seconds(silent), ", limit ", Seconds(limits_.lost))
              : absl::StrCat("node ", name, ": did not come back within ",
                             Seconds(limits_.lost),
                             " of the coordinator's restart");
    } else {
      if (silent >= limits_.suspect) node.state = LeaseState::kSuspect;
      continue;
    }
    lost.push_back({name, node.session, why});
    node.state = LeaseState::kLost;
    node.session = 0;
  }
  return lost;
}

LeaseState Cluster::StateOf(const std::string& name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? LeaseState::kLost : it->second.state;
}

bool Cluster::Connected(const std::string& name) const {
  const auto it = nodes_.find(name);
  return it != nodes_.end() && it->second.session != 0;
}

std::vector<std::string> Cluster::ReadyNodes() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) {
    if (node.state == LeaseState::kReady && node.session != 0) {
      names.push_back(name);
    }
  }
  return names;
}

v1::Topology Cluster::Select(bool only_ready,
                             const std::string* free_for) const {
  v1::Topology topology;
  for (const auto& [name, node] : nodes_) {
    if (node.state == LeaseState::kLost) continue;
    if (only_ready && node.state != LeaseState::kReady) continue;
    v1::Topology::Node here;
    here.set_name(name);
    for (const v1::Device& device : node.hello.devices()) {
      if (!device.usable()) continue;
      const auto owner = owners_.find(DeviceKey(name, device.name()));
      if (free_for != nullptr && owner != owners_.end() &&
          owner->second != *free_for) {
        continue;
      }
      *here.add_devices() = device;
    }
    if (here.devices_size() == 0) continue;
    *topology.add_nodes() = std::move(here);
  }
  FillLinks(&topology);
  return topology;
}

// ---- links ----

void Cluster::LoadLinks(const v1::LinkTable& table) {
  for (const v1::LinkTable::Link& link : table.links()) {
    links_[std::minmax(link.measured().a(), link.measured().b())] = link;
  }
}

v1::LinkTable Cluster::Links() const {
  v1::LinkTable table;
  for (const auto& [pair, link] : links_) *table.add_links() = link;
  return table;
}

void Cluster::SetLink(const v1::LinkMeasurement& link) {
  const auto a = nodes_.find(link.a());
  const auto b = nodes_.find(link.b());
  if (a == nodes_.end() || b == nodes_.end() || a == b) return;
  v1::LinkTable::Link& kept = links_[std::minmax(link.a(), link.b())];
  *kept.mutable_measured() = link;
  kept.set_a_address(a->second.hello.address());
  kept.set_b_address(b->second.hello.address());
}

const v1::LinkMeasurement* Cluster::FindLink(const std::string& a,
                                             const std::string& b) const {
  const auto it = links_.find(std::minmax(a, b));
  if (it == links_.end()) return nullptr;
  const v1::LinkTable::Link& link = it->second;
  const auto first = nodes_.find(link.measured().a());
  const auto second = nodes_.find(link.measured().b());
  const bool same = first != nodes_.end() && second != nodes_.end() &&
                    first->second.hello.address() == link.a_address() &&
                    second->second.hello.address() == link.b_address();
  return same ? &link.measured() : nullptr;
}

std::vector<std::pair<std::string, std::string>> Cluster::UnknownLinks(
    const v1::Topology& topology, absl::Time since) const {
  std::vector<std::pair<std::string, std::string>> unknown;
  const int nodes = topology.nodes_size();
  const auto look = [&](int i, int j) {
    const std::string& a = topology.nodes(std::min(i, j)).name();
    const std::string& b = topology.nodes(std::max(i, j)).name();
    const v1::LinkMeasurement* link = FindLink(a, b);
    if (link == nullptr || absl::FromUnixSeconds(link->measured_at()) < since) {
      unknown.emplace_back(a, b);
    }
  };
  if (nodes <= kMostNodesInPairs) {
    for (int i = 0; i < nodes; ++i) {
      for (int j = i + 1; j < nodes; ++j) look(i, j);
    }
  } else {
    for (int i = 0; i < nodes; ++i) look(i, (i + 1) % nodes);
  }
  return unknown;
}

void Cluster::FillLinks(v1::Topology* topology) const {
  bool one_machine = true;
  double slowest = 0;
  double latest = 0;
  topology->clear_links();
  for (int i = 0; i < topology->nodes_size(); ++i) {
    const std::string& a = topology->nodes(i).name();
    const auto node = nodes_.find(a);
    one_machine = one_machine && node != nodes_.end() &&
                  IsLoopback(node->second.hello.address());
    for (int j = i + 1; j < topology->nodes_size(); ++j) {
      const v1::LinkMeasurement* link = FindLink(a, topology->nodes(j).name());
      if (link == nullptr || !(link->bytes_per_second() > 0)) continue;
      v1::Topology::NodeLink* known = topology->add_links();
      known->set_a(a);
      known->set_b(topology->nodes(j).name());
      known->set_bytes_per_second(link->bytes_per_second());
      known->set_latency_seconds(link->latency_seconds());
      known->set_measured(true);
      slowest = slowest > 0 ? std::min(slowest, link->bytes_per_second())
                            : link->bytes_per_second();
      latest = std::max(latest, link->latency_seconds());
    }
  }
  if (slowest > 0) {
    topology->set_link_bytes_per_second(slowest);
    topology->set_link_latency_seconds(latest);
  } else {
    topology->set_link_bytes_per_second(one_machine ? kLoopbackBytesPerSecond
                                                    : kNetworkBytesPerSecond);
    topology->set_link_latency_seconds(one_machine ? kLoopbackLatencySeconds
                                                   : kNetworkLatencySeconds);
  }
  topology->set_local_bytes_per_second(kLocalBytesPerSecond);
  topology->set_local_latency_seconds(kLocalLatencySeconds);
}

v1::Topology Cluster::FreeFor(const std::string& job) const {
  return Select(/*only_ready=*/true, &job);
}

v1::Topology Cluster::Whole() const {
  return Select(/*only_ready=*/false, nullptr);
}

int Cluster::CountDevices(const v1::Topology& topology) {
  int devices = 0;
  for (const auto& node : topology.nodes()) devices += node.devices_size();
  return devices;
}

void Cluster::Own(const std::string& job,
                  absl::Span<const std::string> devices) {
  for (const std::string& device : devices) {
    const auto [it, fresh] = owners_.emplace(device, job);
    PIPE_CHECK(fresh || it->second == job);
  }
}

void Cluster::ReleaseAll(const std::string& job) { ReleaseBut(job, {}); }

void Cluster::ReleaseOn(const std::string& job, const std::string& node) {
  const std::string prefix = absl::StrCat(node, "/");
  for (auto it = owners_.begin(); it != owners_.end();) {
    const bool mine =
        (it->second == job || it->second == absl::StrCat(job, kStranded)) &&
        absl::StartsWith(it->first, prefix);
    it = mine ? owners_.erase(it) : std::next(it);
  }
}

void Cluster::ReleaseStranded(const std::string& job, const std::string& node) {
  ReleaseOn(absl::StrCat(job, kStranded), node);
}

void Cluster::Strand(const std::string& job, const std::string& node) {
  const std::string prefix = absl::StrCat(node, "/");
  for (auto& [device, owner] : owners_) {
    if (owner == job && absl::StartsWith(device, prefix)) {
      absl::StrAppend(&owner, kStranded);
    }
  }
}

void Cluster::ReleaseBut(const std::string& job,
                         absl::Span<const std::string> keep) {
  for (auto it = owners_.begin(); it != owners_.end();) {
    const bool kept = it->second != job || std::find(keep.begin(), keep.end(),
                                                     it->first) != keep.end();
    it = kept ? std::next(it) : owners_.erase(it);
  }
}

std::vector<std::string> Cluster::OwnedBy(const std::string& job) const {
  std::vector<std::string> devices;
  for (const auto& [device, owner] : owners_) {
    if (owner == job) devices.push_back(device);
  }
  return devices;
}

std::vector<std::string> Cluster::OwnersOn(const std::string& node) const {
  const std::string prefix = absl::StrCat(node, "/");
  std::set<std::string> owners;
  for (const auto& [device, owner] : owners_) {
    if (absl::StartsWith(device, prefix)) owners.insert(owner);
  }
  return {owners.begin(), owners.end()};
}

std::vector<std::string> Cluster::Owners(absl::string_view but) const {
  std::set<std::string> jobs;
  for (const auto& [device, owner] : owners_) {
    if (owner != but) jobs.insert(owner);
  }
  return {jobs.begin(), jobs.end()};
}

std::vector<v1::Node> Cluster::Describe(absl::Time now) const {
  std::vector<v1::Node> nodes;
  for (const auto& [name, node] : nodes_) {
    v1::Node& out = nodes.emplace_back();
    out.set_name(name);
    out.set_state(LeaseStateName(node.state));
    *out.mutable_devices() = node.hello.devices();
    for (const v1::Device& device : node.hello.devices()) {
      const auto owner = owners_.find(DeviceKey(name, device.name()));
      if (owner != owners_.end()) {
        (*out.mutable_jobs())[device.name()] = owner->second;
      }
    }
    out.set_heard_seconds_ago(
        std::max(0.0, absl::ToDoubleSeconds(now - node.heard)));
    out.set_address(node.hello.address());
    out.set_version(node.hello.version());
  }
  return nodes;
}

const v1::Device* Cluster::FindDevice(const std::string& name,
                                      const std::string& device) const {
  const auto it = nodes_.find(name);
  if (it == nodes_.end()) return nullptr;
  for (const v1::Device& each : it->second.hello.devices()) {
    if (each.name() == device) return &each;
  }
  return nullptr;
}

}  // namespace pipework
