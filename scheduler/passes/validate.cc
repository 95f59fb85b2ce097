#include "scheduler/passes/validate.h"

#include "proto/status_macros.h"

namespace pipework {

absl::Status Validate(const Program& program) {
  RETURN_IF_ERROR(CheckRows(program));
  return CheckProgress(program);
}

}  // namespace pipework
