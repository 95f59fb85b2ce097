// One scalar a stage: the smallest network that tells versions apart.
#ifndef PIPEWORK_SCHEDULER_TESTING_SCALAR_CHAIN_H_
#define PIPEWORK_SCHEDULER_TESTING_SCALAR_CHAIN_H_

#include <vector>

#include "scheduler/program.h"

namespace pipework {
namespace testing {

// y = w0 w1 ... x with x = t = 1, loss (y - t)^2 / 2, every w = 0.5 at first,
// plain SGD with rate 0.1 on the mean of the units of an update. Walks the
// compiled program, one replica a stage, and returns the weight of every stage
// after each number of updates. Stops the test program where it waits for ever.
std::vector<std::vector<double>> WalkScalarChain(const Program& program);

}  // namespace testing
}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_TESTING_SCALAR_CHAIN_H_
