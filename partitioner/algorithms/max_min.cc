#include "partitioner/algorithms/max_min.h"

namespace pipework {

// Comparisons as min and max instructions make them, so that the compiler
// takes those, two or more numbers at once, without -ffast-math.
void MinOfMax(const double* __restrict left, double right, int n,
              double* __restrict out) {
  for (int i = 0; i < n; ++i) {
    const double slower = left[i] > right ? left[i] : right;
    out[i] = slower < out[i] ? slower : out[i];
  }
}

}  // namespace pipework
