// Pass: the all-reduce before each update of a replicated stage.
#ifndef PIPEWORK_SCHEDULER_PASSES_INSERT_ALL_REDUCES_H_
#define PIPEWORK_SCHEDULER_PASSES_INSERT_ALL_REDUCES_H_

#include "scheduler/program.h"

namespace pipework {

// A before every U of a stage with replicas, on all of them: one without a unit
// in a partial last group adds nothing but takes the sum, so weights stay
// identical.
void InsertAllReduces(Program* program);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_INSERT_ALL_REDUCES_H_
