// Good layouts of many devices by dynamic programs that look at some of them,
// and small changes as long as they help. Internal to `mixed`.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_SEARCH_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_SEARCH_H_

#include "partitioner/algorithms/mixed_cluster.h"

namespace pipework {
namespace mixed {

// Ends (exclusive) of at most `most` runs of layers of like seconds.
std::vector<int> CoarseEnds(const StageCost& cost, int most);

// The slowest link on a node, and between nodes: where there is but one, the
// same. Messages are taken to go as within a node where `near`, else as between
// nodes.
struct Typical {
  Link within;
  Link between;
  Link messages;
  int largest_node = 1;  // most devices on a node
};
Typical TypicalLinks(const Cluster& cluster, bool near);

// Layers i..N-1 on so many devices of each kind, over coarse layers and blocks
// of devices where there are many:
//
//   A[i][u] = min over j, q of max( T(q, i..j), A[j+1][u - q] )
//
// A ring goes between nodes where no node holds its members. Empty: none fits.
Layout CountedLayout(const Cluster& cluster, const Typical& links);

// Every stage on a run of the devices in this order, with idle ones between,
// over coarse layers and places where there are many:
//
//   A[i][p] = min over p' < p'', j of max( T(p'..p'', i..j), A[j+1][p''] )
//
// from layer i and device p on, p' >= p. Empty: none fits.
enum class RunOrder { kByNode, kFastestFirst, kSlowestFirst };
Layout RunLayout(const Cluster& cluster, RunOrder order, const Typical& links);

// Changes a layout around its slowest stage while that helps: cuts, devices
// moved, swapped, added and dropped, stages split and joined. At most some
// ten thousand layouts are looked at.
Layout Improve(const Cluster& cluster, Layout layout);

}  // namespace mixed
}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_SEARCH_H_
