// The lists of ActionTimes, looked up by action.
#ifndef PIPEWORK_SCHEDULER_PASSES_WORK_TABLES_H_
#define PIPEWORK_SCHEDULER_PASSES_WORK_TABLES_H_

#include <utility>
#include <vector>

#include "scheduler/passes/simulate.h"

namespace pipework {

// Of a list that may be left out: 0.
inline double EntryOf(const std::vector<double>& list, size_t index) {
  return list.empty() ? 0 : list[index];
}

// Seconds of every compute action, by stage and chunk.
class WorkTable {
 public:
  WorkTable(const Program& program, const ActionTimes& times, int chunks);

  double Seconds(int stage, const Action& action) const;

 private:
  const int chunks_;
  std::vector<double> forward_;
  std::vector<double> backward_;
  std::vector<double> weight_;
  std::vector<double> update_;
};

// Entries of lists by edge, between any two stages, in either direction.
class EdgeTable {
 public:
  explicit EdgeTable(const PipelineShape& shape);

  // Where there is no edge, as from the last stage to the next chunk of the
  // first, the largest entry.
  double Of(const std::vector<double>& list, int stage, int peer) const;

 private:
  // By stage: the other end, and the number of the edge.
  std::vector<std::vector<std::pair<int, int>>> of_stage_;
};

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_WORK_TABLES_H_
