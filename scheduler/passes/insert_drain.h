// Pass: the end of a segment.
#ifndef PIPEWORK_SCHEDULER_PASSES_INSERT_DRAIN_H_
#define PIPEWORK_SCHEDULER_PASSES_INSERT_DRAIN_H_

#include "scheduler/program.h"

namespace pipework {

// D at the end of every row, then S where the segment saves. An evaluation
// changes nothing and needs neither.
void InsertDrain(Program* program);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_INSERT_DRAIN_H_
