// Programs for tests.
#ifndef PIPEWORK_SCHEDULER_TESTING_PROGRAMS_H_
#define PIPEWORK_SCHEDULER_TESTING_PROGRAMS_H_

#include <functional>
#include <string>
#include <vector>

#include "scheduler/compile.h"
#include "scheduler/program.h"

namespace pipework {
namespace testing {

// A chain with these replicas.
PipelineShape ChainOf(std::vector<int> replicas, int in_flight = 0);

// A segment of so many minibatches from the start of a run.
Segment SegmentOf(int64_t minibatches, int microbatches = 1,
                  int accumulate = 1);

// Stops the test program when it does not compile.
Program MustCompile(const std::string& schedule, const PipelineShape& shape,
                    const Segment& segment);

Program MustCompile(const Recipe& recipe, const PipelineShape& shape,
                    const Segment& segment);

// Every vector of replicas 1..most of 1 to `stages` stages.
void ForEachShape(int stages, int most,
                  const std::function<void(const PipelineShape&)>& body);

// The same with every vector of shares 1..most_share that have nothing in
// common; stages whose shares are alike have no entry.
void ForEachShares(int stages, int most, int most_share,
                   const std::function<void(const PipelineShape&)>& body);

// "F0 >F0 B0 ..." of one row, all actions.
std::string RowText(const Program& program, int stage, int replica = 0);

// The actions of one row that are of these kinds, in order.
std::vector<Action> ActionsOf(const Program& program, int stage, int replica,
                              std::vector<ActionKind> kinds);

}  // namespace testing
}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_TESTING_PROGRAMS_H_
