// The reason of an error, UPPER_SNAKE, and whether a peer's end caused it:
// carried as payloads, so they survive every context that is added.
#ifndef PIPEWORK_DAEMON_EXECUTOR_REASON_H_
#define PIPEWORK_DAEMON_EXECUTOR_REASON_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pipework {

// `status` with that reason, unless it has one. OK stays OK.
absl::Status WithReason(absl::Status status, absl::string_view reason);

// The reason, or the one that fits the code: OUT_OF_MEMORY, DATA_ERROR,
// PEER_TIMEOUT, PEER_LOST, CANCELLED, EXECUTOR_ERROR.
std::string ReasonOf(const absl::Status& status);

// Marks an error as another executor's or runner's end, seen from here.
absl::Status CausedByPeer(absl::Status status);
bool IsCausedByPeer(const absl::Status& status);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_REASON_H_
