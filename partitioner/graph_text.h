// Profiles as text: the graph.txt of the published PipeDream profiles, and our
// own text proto.
#ifndef PIPEWORK_PARTITIONER_GRAPH_TEXT_H_
#define PIPEWORK_PARTITIONER_GRAPH_TEXT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/profile.pb.h"

namespace pipework {

constexpr int kMostGraphTextBytes = 10 << 20;

// Reads lines of nodes and edges:
//
//   node4 -- Linear(8, 4) -- forward_compute_time=0.5,
//       backward_compute_time=1.0, activation_size=64.0, parameter_size=128.0
//   <tab>node1 -- node4
//
// (a node is one line; times in milliseconds, sizes in bytes; a size may be a
// list "[64.0; 8.0]", and " -- stage_id=N" may follow). As the public optimizer
// has it, nodes that begin with "Input" cost nothing and become "x", and sinks
// "__getitem__" are dropped. The layers come in a topological order, smallest
// number first where there is a choice. A layer that reads nothing reads "x".
// The file does not say how many samples a minibatch has: `batch` is 1, and
// every figure is that of one minibatch.
//
// `source` is what errors and the profile call the text.
// InvalidArgument, "<source>:<line>: ...": a line that is neither, a negative
// or non-finite number, a node twice, an edge with an unknown node, a node
// without an edge, a cycle, or more than kMostGraphTextBytes.
absl::StatusOr<v1::Profile> ParseGraphText(absl::string_view text,
                                           absl::string_view source);

// Reads either kind, told apart by the first line, and checks it with
// CheckProfile. InvalidArgument begins with `source`.
absl::StatusOr<v1::Profile> ParseProfile(absl::string_view text,
                                         absl::string_view source);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_GRAPH_TEXT_H_
