// Pass: what each stage sends and receives.
#ifndef PIPEWORK_SCHEDULER_PASSES_INSERT_TRANSFERS_H_
#define PIPEWORK_SCHEDULER_PASSES_INSERT_TRANSFERS_H_

#include "scheduler/program.h"

namespace pipework {

// Around each F (and E): <F from every producer right before, >F to every
// consumer right after. Around each B the same in reverse, over edges that have
// a gradient. The gradient leaves before the update that follows: with
// replicated stages the other order can wait for ever.
void InsertTransfers(Program* program);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_INSERT_TRANSFERS_H_
