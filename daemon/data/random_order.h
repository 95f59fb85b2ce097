// A random order of n things, keyed and repeatable on every machine.
#ifndef PIPEWORK_DAEMON_DATA_RANDOM_ORDER_H_
#define PIPEWORK_DAEMON_DATA_RANDOM_ORDER_H_

#include <cstdint>
#include <vector>

namespace pipework {

// The numbers 0..n-1 in an order that depends on (seed, stream) alone.
//
// Fisher and Yates from the top, with one draw of a counter-based generator
// for each place: draw i is splitmix64's output function of key + i * gamma,
// where the key mixes seed and stream; a draw becomes a number below b as the
// high half of draw * b. Part of the format of a run: changing it changes
// which sample is in which minibatch of every job.
// REQUIRES: n >= 0.
std::vector<int64_t> RandomOrder(int64_t n, int64_t seed, int64_t stream);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_RANDOM_ORDER_H_
