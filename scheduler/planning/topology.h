// A description of a cluster, checked, with every node and device by name.
//
// A file or a flag describes a cluster by its levels, or lists its nodes and
// links; everything else works on nodes. Pure.
#ifndef PIPEWORK_SCHEDULER_PLANNING_TOPOLOGY_H_
#define PIPEWORK_SCHEDULER_PLANNING_TOPOLOGY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/placement.pb.h"

namespace pipework {

// Most devices of a cluster, and most of its nodes.
constexpr int kMostDevices = 1 << 16;
// Most levels: devices of a node, nodes, groups of nodes and so on.
constexpr int kMostLevels = 8;

// `topology` with nodes. Without nodes, levels make them: n1, n2, .. with
// devices cpu:0, cpu:1, .. of topology.device (its name, kind, memory and
// speed; a device without a kind is a CPU core of its own). With nodes, a
// device is usable unless it says why not. Figures for the links within and
// between nodes come from levels[0] and levels[1] where the fields of their own
// are 0; components and levels of the result agree.
//
// InvalidArgument, one line that names the place: no device, or more than
// kMostDevices; a bandwidth that is needed and is 0; a figure that is no number
// or beyond what a cluster can have; a name that is empty, not printable or
// there twice; a link to a node that is not there.
absl::StatusOr<v1::Topology> ExpandTopology(const v1::Topology& topology);

// "4,4" with "8e9,1.25e9" and "1e-5,5e-5": levels from the innermost out, each
// with its bytes per second ("125MB", "1.25GB", "8e9") and seconds per message
// ("50us", "5e-5"; "": 0). Without bandwidths a node's devices are joined at 5
// GB/s and 5 us, everything above at 125 MB/s and 50 us, a gigabit network. Not
// expanded yet. InvalidArgument: what is wrong with which of the three.
absl::StatusOr<v1::Topology> LevelsOf(absl::string_view counts,
                                      absl::string_view bandwidths,
                                      absl::string_view latencies);

// Fills the links within and between nodes where they are 0 with the figures
// above: for clusters that are only counted.
void FillLinks(v1::Topology* topology);

// "125MB", "1.25GB/s", "8e9" in bytes per second. InvalidArgument: below 1, or
// beyond 1e15.
absl::StatusOr<double> ParseBandwidth(absl::string_view text);

// "50us", "5ms", "5e-5" in seconds per message. InvalidArgument: negative, or
// beyond 1,000 seconds.
absl::StatusOr<double> ParseLatency(absl::string_view text);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_TOPOLOGY_H_
