// The inner loop of the recurrences.
#ifndef PIPEWORK_PARTITIONER_ALGORITHMS_MAX_MIN_H_
#define PIPEWORK_PARTITIONER_ALGORITHMS_MAX_MIN_H_

namespace pipework {

// out[i] = min(out[i], max(left[i], right)) for i < n. About 0.2 ns each.
// REQUIRES: `left` and `out` do not overlap.
void MinOfMax(const double* left, double right, int n, double* out);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_ALGORITHMS_MAX_MIN_H_
