// Every layout there is, by dynamic programming over sets of devices. Internal
// to `mixed`.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_EXACT_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_EXACT_H_

#include "partitioner/algorithms/mixed_cluster.h"

namespace pipework {
namespace mixed {

// Whether ExactLayout takes about a second at most, in 200 MB.
bool FewEnough(const Cluster& cluster);

// The quickest layout; of equal ones one with the fewest devices. Empty: none
// fits. REQUIRES: FewEnough.
Layout ExactLayout(const Cluster& cluster);

}  // namespace mixed
}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_MIXED_EXACT_H_
