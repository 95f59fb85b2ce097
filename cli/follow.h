// Following a job to its end: progress for people, steps into a file.
#ifndef PIPEWORK_CLI_FOLLOW_H_
#define PIPEWORK_CLI_FOLLOW_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/output.h"
#include "proto/coordinator.pb.h"

namespace pipework {

struct FollowOptions {
  // .jsonl or .csv; empty: none. One record a step.
  std::string metrics_file;
  // Asked about ten times a second; true ends with Cancelled.
  std::function<bool()> interrupted;
  // Called about as often; an error ends the following.
  std::function<absl::Status()> tend;
  // How long an unreachable coordinator is waited for.
  double patience_seconds = 30;
  // Whether events (state changes, checkpoints, faults) are shown.
  bool progress = true;
};

// Returns the job when it is over. A cut watch is taken up again while the
// coordinator comes back within `patience_seconds`; then Unavailable.
// InvalidArgument: the metrics file has another ending or cannot be written.
absl::StatusOr<v1::Job> FollowJob(Client& client, const std::string& job,
                                  const Output& out,
                                  const FollowOptions& options);

// InvalidArgument unless `file` is empty or ends in .jsonl or .csv.
absl::Status CheckMetricsFile(const std::string& file);

}  // namespace pipework

#endif  // PIPEWORK_CLI_FOLLOW_H_
