// The links that rows share: a tree of components, full duplex.
//
// A component of a level (a device, a node, a rack) has one link up to what
// joins it with its neighbours, and one down. A message between two rows takes
// the links of the outermost level on which the rows are in different
// components: up from the sender's, down to the receiver's. A link serves one
// message at a time, in order of arrival. A message goes through both links at
// once where both are free, so alone it takes
//
//   bytes / bytes_per_second + latency.
#ifndef PIPEWORK_SCHEDULER_PASSES_NETWORK_H_
#define PIPEWORK_SCHEDULER_PASSES_NETWORK_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "partitioner/cost_model.h"
#include "scheduler/program.h"

namespace pipework {

struct Network {
  // The links of a level's components, from the inside out: levels[0] joins
  // the devices of a node, levels[1] nodes, levels[2] groups of nodes.
  std::vector<Link> levels;
  // By row: its component on each level. Components are numbered through the
  // level, so two nodes never share a number. Rows of one device exchange
  // messages in no time.
  std::vector<std::vector<int>> row_path;
  // Bytes of one unit over edge i of EdgesOf(shape), there and back.
  std::vector<double> forward_bytes;
  std::vector<double> backward_bytes;
  // By stage: what its replicas sum, in a ring in replica order whose messages
  // take these links too. Beside all_reduce_seconds.
  std::vector<double> all_reduce_bytes;
  // Messages between components a and b of a level, either way, go at this
  // speed instead of the level's, through the same links.
  struct Pair {
    int level = 0;
    int a = 0;
    int b = 0;
    Link link;
  };
  std::vector<Pair> pairs;

  bool empty() const { return levels.empty(); }
};

// The way of a message. level -1: within a device.
struct Route {
  int level = -1;
  int from = 0;  // the component whose up-link it takes
  int to = 0;    // the component whose down-link it takes
  Link link;
};

// REQUIRES: CheckNetwork is OK; both rows exist.
Route RouteOf(const Network& network, size_t from_row, size_t to_row);

// InvalidArgument: a list has another length than it needs, or a speed, a
// number of bytes or a component is negative or not a number.
absl::Status CheckNetwork(const Network& network, const Program& program);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_NETWORK_H_
