#include "scheduler/planning/topology.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// For a cluster that is only counted: a gigabit network, and copies at memory
// speed within a node.
constexpr double kLinkBytesPerSecond = 125e6;
constexpr double kLinkLatencySeconds = 50e-6;
constexpr double kLocalBytesPerSecond = 5e9;
constexpr double kLocalLatencySeconds = 5e-6;
constexpr size_t kMostNameBytes = 200;
// Figures beyond these are mistakes, and sums of them would be.
constexpr double kLeastBytesPerSecond = 1;
constexpr double kMostBytesPerSecond = 1e15;
constexpr double kMostLatencySeconds = 1000;
constexpr double kLeastSpeed = 1e-3;
constexpr double kMostSpeed = 1e3;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMostNameBytes)),
                      "\"");
}

// False for NaN.
bool IsWithin(double value, double least, double most) {
  return value >= least && value <= most;
}

absl::Status CheckLatency(absl::string_view who, absl::string_view what,
                          double seconds) {
  if (IsWithin(seconds, 0, kMostLatencySeconds)) return absl::OkStatus();
  return Mismatch(who, what, absl::StrCat(seconds),
                  absl::StrCat("0 to ", kMostLatencySeconds),
                  "say how many seconds a message takes");
}

// Where `known` is false, 0 says that the figure is not known.
absl::Status CheckBandwidth(absl::string_view who, absl::string_view what,
                            double bytes_per_second, bool known) {
  if (!known && bytes_per_second == 0) return absl::OkStatus();
  if (IsWithin(bytes_per_second, kLeastBytesPerSecond, kMostBytesPerSecond)) {
    return absl::OkStatus();
  }
  return Mismatch(who, what, absl::StrCat(bytes_per_second),
                  absl::StrCat(kLeastBytesPerSecond, " to ",
                               kMostBytesPerSecond, known ? "" : ", or 0"),
                  "say how many bytes per second the link carries");
}

absl::Status CheckLink(absl::string_view who, double bytes_per_second,
                       double latency_seconds) {
  RETURN_IF_ERROR(CheckBandwidth(who, "bytes_per_second", bytes_per_second,
                                 /*known=*/true));
  return CheckLatency(who, "latency_seconds", latency_seconds);
}

absl::Status CheckName(absl::string_view who, absl::string_view what,
                       absl::string_view name) {
  const bool plain = !name.empty() && name.size() <= kMostNameBytes &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return c > ' ' && c < 0x7f && c != '/' && c != ',';
                     });
  if (plain) return absl::OkStatus();
  return Mismatch(who, what, Quoted(name),
                  "1 to 200 printable ASCII characters without spaces, commas "
                  "and slashes");
}

absl::Status CheckDevice(absl::string_view who, const v1::Device& device) {
  if (device.memory_bytes() < 0) {
    return Mismatch(who, "memory_bytes", absl::StrCat(device.memory_bytes()),
                    "0 (unknown) or more");
  }
  for (const int core : device.cores()) {
    if (core < 0) {
      return Mismatch(who, "cores", absl::StrCat(core), "0 or more");
    }
  }
  const double speed = device.relative_speed();
  if (speed == 0 || IsWithin(speed, kLeastSpeed, kMostSpeed)) {
    return absl::OkStatus();
  }
  return Mismatch(who, "relative_speed", absl::StrCat(speed),
                  absl::StrCat(kLeastSpeed, " to ", kMostSpeed,
                               ", or 0 for the speed that was profiled"));
}

std::string LevelName(const v1::Topology& topology, int k) {
  const std::string& name = topology.levels(k).name();
  return absl::StrCat(
      "topology: levels[", k, "]",
      name.empty() ? "" : absl::StrCat(" (", Quoted(name), ")"));
}

absl::Status CheckLevels(const v1::Topology& topology) {
  if (topology.levels_size() > kMostLevels) {
    return Mismatch("topology", "the number of levels",
                    absl::StrCat(topology.levels_size()),
                    absl::StrCat("at most ", kMostLevels));
  }
  int64_t devices = 1;
  for (int k = 0; k < topology.levels_size(); ++k) {
    const v1::Topology::Level& level = topology.levels(k);
    const std::string who = LevelName(topology, k);
    RETURN_IF_ERROR(
        CheckLink(who, level.bytes_per_second(), level.latency_seconds()));
    if (!topology.nodes().empty()) continue;
    if (level.count() < 1) {
      return Mismatch(who, "count", absl::StrCat(level.count()), "1 or more");
    }
    devices *= level.count();
    if (devices > kMostDevices) {
      return Mismatch(who, "count", absl::StrCat(level.count()),
                      absl::StrCat("so few that the cluster has at most ",
                                   kMostDevices, " devices"));
    }
  }
  return absl::OkStatus();
}

// n1, n2, .. from the levels.
absl::Status MakeNodes(v1::Topology* topology) {
  RETURN_IF_ERROR(CheckDevice("topology: device", topology->device()));
  const v1::Device& pattern = topology->device();
  const std::string wanted = pattern.name().empty() ? "cpu" : pattern.name();
  const std::string prefix = wanted.substr(0, wanted.find(':'));
  RETURN_IF_ERROR(CheckName("topology: device", "name", prefix));
  int nodes = 1;
  for (int k = 1; k < topology->levels_size(); ++k) {
    nodes *= topology->levels(k).count();
  }
  for (int n = 0; n < nodes; ++n) {
    v1::Topology::Node* node = topology->add_nodes();
    node->set_name(absl::StrCat("n", n + 1));
    for (int d = 0; d < topology->levels(0).count(); ++d) {
      v1::Device* device = node->add_devices();
      *device = pattern;
      device->set_name(absl::StrCat(prefix, ":", d));
      device->clear_cores();
      if (pattern.kind().empty() && prefix == "cpu") {
        device->set_kind("cpu x1");
        device->add_cores(d);
      }
    }
    int component = n;
    for (int k = 2; k < topology->levels_size(); ++k) {
      component /= topology->levels(k - 1).count();
      node->add_components(component);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNodes(v1::Topology* topology) {
  const int wanted = std::max(0, topology->levels_size() - 2);
  std::set<std::string> names;
  int64_t devices = 0;
  for (v1::Topology::Node& node : *topology->mutable_nodes()) {
    RETURN_IF_ERROR(CheckName("topology", "the name of a node", node.name()));
    const std::string who = absl::StrCat("topology: node ", node.name());
    if (!names.insert(node.name()).second) {
      return Mismatch(who, "its name", "there twice", "one node of that name");
    }
    if (node.components().empty()) {
      for (int k = 0; k < wanted; ++k) node.add_components(0);
    }
    if (node.components_size() != wanted) {
      return Mismatch(
          who, "the number of components", absl::StrCat(node.components_size()),
          absl::StrCat(wanted, ", one for each level above nodes"),
          "say for levels[2] and further which of them the node is in");
    }
    for (const int component : node.components()) {
      if (component >= 0) continue;
      return Mismatch(who, "a component", absl::StrCat(component), "0 or more");
    }
    devices += node.devices_size();
    if (devices > kMostDevices) break;
    std::set<std::string> device_names;
    for (v1::Device& device : *node.mutable_devices()) {
      RETURN_IF_ERROR(CheckName(who, "the name of a device", device.name()));
      const std::string place = absl::StrCat(who, "/", device.name());
      if (!device_names.insert(device.name()).second) {
        return Mismatch(place, "its name", "there twice",
                        "one device of that name");
      }
      RETURN_IF_ERROR(CheckDevice(place, device));
      if (device.unusable_reason().empty()) device.set_usable(true);
    }
  }
  if (devices > 0 && devices <= kMostDevices) return absl::OkStatus();
  return Mismatch(
      "topology", "the number of devices",
      devices == 0 ? "0" : absl::StrCat("over ", kMostDevices),
      absl::StrCat("1 to ", kMostDevices),
      devices == 0 ? "list nodes with devices, or levels with a count" : "");
}

// How many pairs of nodes have a link of their own; the slowest of them.
struct OwnLinks {
  int64_t pairs = 0;
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

absl::StatusOr<OwnLinks> CheckLinks(const v1::Topology& topology) {
  std::set<absl::string_view> nodes;
  for (const v1::Topology::Node& node : topology.nodes()) {
    nodes.insert(node.name());
  }
  OwnLinks own;
  std::set<std::pair<absl::string_view, absl::string_view>> pairs;
  for (int i = 0; i < topology.links_size(); ++i) {
    const v1::Topology::NodeLink& link = topology.links(i);
    const std::string who = absl::StrCat("topology: links[", i, "]");
    for (const std::string* end : {&link.a(), &link.b()}) {
      if (nodes.count(*end) > 0) continue;
      return Mismatch(who, end == &link.a() ? "a" : "b", Quoted(*end),
                      "the name of a node", "list the node, or mend its name");
    }
    const std::string ends =
        absl::StrCat(who, " (", link.a(), "-", link.b(), ")");
    if (link.a() == link.b()) {
      return Mismatch(ends, "b", "the same node as a", "another one",
                      "links within nodes are local_bytes_per_second");
    }
    if (!pairs.insert(std::minmax<absl::string_view>(link.a(), link.b()))
             .second) {
      return Mismatch(ends, "the pair", "there twice", "one link");
    }
    RETURN_IF_ERROR(
        CheckLink(ends, link.bytes_per_second(), link.latency_seconds()));
    if (own.pairs == 0 || link.bytes_per_second() < own.bytes_per_second) {
      own.bytes_per_second = link.bytes_per_second();
      own.latency_seconds = link.latency_seconds();
    }
    ++own.pairs;
  }
  return own;
}

absl::Status FillFromLevels(const OwnLinks& own, v1::Topology* topology) {
  RETURN_IF_ERROR(CheckBandwidth("topology", "link_bytes_per_second",
                                 topology->link_bytes_per_second(), false));
  RETURN_IF_ERROR(CheckLatency("topology", "link_latency_seconds",
                               topology->link_latency_seconds()));
  RETURN_IF_ERROR(CheckBandwidth("topology", "local_bytes_per_second",
                                 topology->local_bytes_per_second(), false));
  RETURN_IF_ERROR(CheckLatency("topology", "local_latency_seconds",
                               topology->local_latency_seconds()));
  const int levels = topology->levels_size();
  if (topology->local_bytes_per_second() == 0 && levels > 0) {
    topology->set_local_bytes_per_second(
        topology->levels(0).bytes_per_second());
    topology->set_local_latency_seconds(topology->levels(0).latency_seconds());
  }
  if (topology->link_bytes_per_second() == 0 && levels > 1) {
    topology->set_link_bytes_per_second(topology->levels(1).bytes_per_second());
    topology->set_link_latency_seconds(topology->levels(1).latency_seconds());
  }
  const int64_t nodes = topology->nodes_size();
  if (topology->link_bytes_per_second() == 0 && own.pairs > 0 &&
      own.pairs == nodes * (nodes - 1) / 2) {
    topology->set_link_bytes_per_second(own.bytes_per_second);
    topology->set_link_latency_seconds(own.latency_seconds);
  }
  const bool several = std::any_of(
      topology->nodes().begin(), topology->nodes().end(),
      [](const v1::Topology::Node& node) { return node.devices_size() > 1; });
  if (several && topology->local_bytes_per_second() == 0) {
    return Mismatch("topology", "local_bytes_per_second", "0",
                    "a number above 0, as a node has several devices",
                    "say it, or levels[0]");
  }
  if (nodes > 1 && topology->link_bytes_per_second() == 0) {
    return Mismatch("topology", "link_bytes_per_second", "0",
                    "a number above 0, as there are several nodes",
                    "say it, or levels[1], or a link for every pair of nodes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Topology> ExpandTopology(const v1::Topology& topology) {
  RETURN_IF_ERROR(CheckLevels(topology));
  v1::Topology out = topology;
  if (out.nodes().empty() && !out.levels().empty()) {
    RETURN_IF_ERROR(MakeNodes(&out));
  }
  RETURN_IF_ERROR(CheckNodes(&out));
  ASSIGN_OR_RETURN(const OwnLinks own, CheckLinks(out));
  RETURN_IF_ERROR(FillFromLevels(own, &out));
  return out;
}

absl::StatusOr<double> ParseBandwidth(absl::string_view text) {
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
  if (!absl::SimpleAtod(number, &value) ||
      !IsWithin(value * unit, kLeastBytesPerSecond, kMostBytesPerSecond)) {
    return Mismatch("--bandwidth", "value", Quoted(text),
                    absl::StrCat("1 to ", kMostBytesPerSecond,
                                 " bytes per second, such as 125MB, 1.25GB or "
                                 "8e9"));
  }
  return value * unit;
}

absl::StatusOr<double> ParseLatency(absl::string_view text) {
  absl::string_view number = text;
  double unit = 1;
  if (absl::ConsumeSuffix(&number, "ns")) {
    unit = 1e-9;
  } else if (absl::ConsumeSuffix(&number, "us")) {
    unit = 1e-6;
  } else if (absl::ConsumeSuffix(&number, "ms")) {
    unit = 1e-3;
  } else {
    absl::ConsumeSuffix(&number, "s");
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value) ||
      !IsWithin(value * unit, 0, kMostLatencySeconds)) {
    return Mismatch("--latency", "value", Quoted(text),
                    absl::StrCat("0 to ", kMostLatencySeconds,
                                 " seconds per message, such as 50us or 5e-5"));
  }
  return value * unit;
}

void FillLinks(v1::Topology* topology) {
  if (topology->link_bytes_per_second() == 0) {
    topology->set_link_bytes_per_second(kLinkBytesPerSecond);
    topology->set_link_latency_seconds(kLinkLatencySeconds);
  }
  if (topology->local_bytes_per_second() == 0) {
    topology->set_local_bytes_per_second(kLocalBytesPerSecond);
    topology->set_local_latency_seconds(kLocalLatencySeconds);
  }
}

absl::StatusOr<v1::Topology> LevelsOf(absl::string_view counts,
                                      absl::string_view bandwidths,
                                      absl::string_view latencies) {
  const auto parts = [](absl::string_view text) {
    std::vector<absl::string_view> list;
    if (!text.empty()) list = absl::StrSplit(text, ',');
    return list;
  };
  v1::Topology topology;
  int64_t devices = 1;
  for (const absl::string_view part : parts(counts)) {
    int count = 0;
    if (!absl::SimpleAtoi(part, &count) || count < 1 ||
        (devices *= count) > kMostDevices) {
      return Mismatch("--devices", "value", Quoted(counts),
                      absl::StrCat("devices of a node, nodes and so on, such "
                                   "as 4,4, at most ",
                                   kMostDevices, " devices in all"));
    }
    v1::Topology::Level* level = topology.add_levels();
    const bool node = topology.levels_size() == 1;
    level->set_count(count);
    level->set_bytes_per_second(node ? kLocalBytesPerSecond
                                     : kLinkBytesPerSecond);
    level->set_latency_seconds(node ? kLocalLatencySeconds
                                    : kLinkLatencySeconds);
  }
  if (topology.levels().empty() || topology.levels_size() > kMostLevels) {
    return Mismatch("--devices", "value", Quoted(counts),
                    absl::StrCat("1 to ", kMostLevels,
                                 " levels, such as 4,4: 4 nodes of 4 devices"));
  }
  const std::vector<absl::string_view> speeds = parts(bandwidths);
  const std::vector<absl::string_view> waits = parts(latencies);
  const struct {
    absl::string_view flag, text;
    size_t size;
  } lists[] = {{"--bandwidth", bandwidths, speeds.size()},
               {"--latency", latencies, waits.size()}};
  for (const auto& list : lists) {
    if (list.size == 0 ||
        list.size == static_cast<size_t>(topology.levels_size())) {
      continue;
    }
    return Mismatch(list.flag, "value", Quoted(list.text),
                    absl::StrCat("one for each level of --devices, which has ",
                                 topology.levels_size()));
  }
  for (size_t k = 0; k < speeds.size(); ++k) {
    v1::Topology::Level* level = topology.mutable_levels(static_cast<int>(k));
    ASSIGN_OR_RETURN(const double speed, ParseBandwidth(speeds[k]));
    level->set_bytes_per_second(speed);
    level->set_latency_seconds(0);
  }
  for (size_t k = 0; k < waits.size(); ++k) {
    ASSIGN_OR_RETURN(const double seconds, ParseLatency(waits[k]));
    topology.mutable_levels(static_cast<int>(k))->set_latency_seconds(seconds);
  }
  return topology;
}

}  // namespace pipework
