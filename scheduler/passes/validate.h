// The last pass: a program that it lets through can be trusted.
//
// Linear in the number of actions.
#ifndef PIPEWORK_SCHEDULER_PASSES_VALIDATE_H_
#define PIPEWORK_SCHEDULER_PASSES_VALIDATE_H_

#include "absl/status/status.h"
#include "scheduler/program.h"

namespace pipework {

// OK when CheckRows and CheckProgress are.
absl::Status Validate(const Program& program);

// Each row by itself: every unit's F and B (or E) exactly once, on its owner,
// in ascending order; receives right before, sends right after, to the right
// replica; R between B and the update; A and U complete and in order, each
// update after the last gradient that it sums and before the first that it does
// not; every version read exists, is the policy's, and is the same in F and B;
// never more than Warmup + 1 units in flight or more versions than the policy
// allows; D and S at the end.
// InvalidArgument names the row and shows it, the action in brackets.
absl::Status CheckRows(const Program& program);

// All rows together, on a transport without buffers: sends start and go on,
// receives wait for their send, an all-reduce and a drain for all replicas.
// InvalidArgument: some row waits for ever, or a message is never received.
absl::Status CheckProgress(const Program& program);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_VALIDATE_H_
