// What a row holds as it runs: units in flight, weight versions, gradients that
// wait for their W. A row's order decides it, not the clock.
#ifndef PIPEWORK_SCHEDULER_PASSES_ROW_PEAKS_H_
#define PIPEWORK_SCHEDULER_PASSES_ROW_PEAKS_H_

#include <vector>

#include "scheduler/program.h"

namespace pipework {

// By stage; an empty list is all zeros.
struct PeakBytes {
  // Of one unit between its F and its R (or its B, where W is split off).
  std::vector<double> activation_bytes;
  // Of one unit between its B and its W. Empty: as activation_bytes.
  std::vector<double> weight_gradient_bytes;
  // Of one weight version.
  std::vector<double> version_bytes;
};

struct RowPeaks {
  int in_flight = 0;  // most units; with chunks: most chunks of units
  int pending = 0;    // most units between their B and their W
  int versions = 1;   // most weight versions, the newest included
  int staleness = 0;  // most updates between reading a version and its gradient
  double peak_bytes = 0;  // of all that, at the worst moment
};

// A version is held from its U until the last action that reads it, the newest
// always. A chunk holds 1 / chunks of its stage's activation bytes.
// REQUIRES: each list of `bytes` is empty or one for each stage.
RowPeaks PeaksOf(const Program& program, const Row& row,
                 const PeakBytes& bytes = {});

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_ROW_PEAKS_H_
