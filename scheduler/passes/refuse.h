// How the validating passes speak: the message, then the row.
#ifndef PIPEWORK_SCHEDULER_PASSES_REFUSE_H_
#define PIPEWORK_SCHEDULER_PASSES_REFUSE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "scheduler/program.h"

namespace pipework {

// InvalidArgument
//   schedule: stage 1 <problem>; the row is
//       s1  F0 F1 [B0] F2 B1
// with `at` in brackets and a few actions around it. `at` may be one past the
// last action.
absl::Status RefuseRow(const Program& program, const Row& row, size_t at,
                       absl::string_view problem);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_REFUSE_H_
