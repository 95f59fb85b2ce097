// What the times of repeated rounds over a graph say: which of them count,
// medians and spreads, and whether the device was busy with something else.
// Pure: no clock, no layers.
#ifndef PIPEWORK_DAEMON_PROFILER_ROUND_TIMES_H_
#define PIPEWORK_DAEMON_PROFILER_ROUND_TIMES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace pipework {

// One pass over a whole graph and back.
struct RoundTime {
  double wall_seconds = 0;
  // Of the thread that ran it; less than the wall time where it had to wait
  // for its core.
  double cpu_seconds = 0;
};

// Rounds at the beginning that are slow because they are the first: memory is
// touched, kernels are made, caches are empty. At least one; each that takes
// over twice as long as the fastest of all. 0 without rounds.
size_t ColdRounds(absl::Span<const RoundTime> rounds);

// Indices of the rounds that count: the warm ones, and of these only those in
// which the thread had its core for itself, where there are at least
// `enough`.
std::vector<size_t> CountedRounds(absl::Span<const RoundTime> rounds,
                                  size_t enough);

// Share of the warm rounds' time in which the thread waited for its core.
double DisturbedShare(absl::Span<const RoundTime> rounds);

// Of values[i] for i in `counted`, between ranks; 0 where there are none.
// REQUIRES: 0 <= q <= 1.
double Quantile(absl::Span<const double> values,
                absl::Span<const size_t> counted, double q);

// Interquartile range over the median; 0 where there are none.
double Spread(absl::Span<const double> values,
              absl::Span<const size_t> counted);

// Whether a layer with these times moved too much to be relied on. What is
// below the clock's own unrest counts for nothing.
bool IsNoisy(double median_seconds, double spread);

// What is said of all layers together.
struct LayerNoise {
  double seconds = 0;
  bool noisy = false;
};
// Whether the device was busy: the thread waited for its core for over a tenth
// of the time, layers with a quarter of the whole time are noisy, or the
// second half of the counted rounds differs from the first by over a fifth.
bool WasBusy(absl::Span<const RoundTime> rounds,
             absl::Span<const size_t> counted,
             absl::Span<const LayerNoise> layers);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_PROFILER_ROUND_TIMES_H_
