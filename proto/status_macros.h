// RETURN_IF_ERROR and ASSIGN_OR_RETURN for absl::Status and absl::StatusOr.
#ifndef PIPEWORK_PROTO_STATUS_MACROS_H_
#define PIPEWORK_PROTO_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define PIPE_CONCAT_INNER(a, b) a##b
#define PIPE_CONCAT(a, b) PIPE_CONCAT_INNER(a, b)

// Returns the status of `expression` from the enclosing function unless OK.
#define RETURN_IF_ERROR(expression)            \
  do {                                         \
    ::absl::Status pipe_status = (expression); \
    if (!pipe_status.ok()) return pipe_status; \
  } while (false)

// Evaluates a StatusOr; on OK assigns its value to `left`, else returns.
#define ASSIGN_OR_RETURN(left, expression) \
  ASSIGN_OR_RETURN_IMPL(PIPE_CONCAT(pipe_statusor_, __LINE__), left, expression)

#define ASSIGN_OR_RETURN_IMPL(statusor, left, expression)  \
  auto statusor = (expression);                            \
  if (!statusor.ok()) return std::move(statusor).status(); \
  left = std::move(statusor).value()

#endif  // PIPEWORK_PROTO_STATUS_MACROS_H_
