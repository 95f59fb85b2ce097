#include "scheduler/versioning/policy.h"

#include <algorithm>

namespace pipework {

WeightVersion Flight::OldestForwardRead() const {
  WeightVersion oldest{newest.value() + 1};
  for (const WeightVersion read : forward_reads) {
    oldest = std::min(oldest, read);
  }
  return oldest;
}

}  // namespace pipework
