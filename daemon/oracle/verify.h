// Verification of a job that ran: its last checkpoint against the serial
// oracle. What `pipe-runner --oracle` runs for `pipectl verify`.
#ifndef PIPEWORK_DAEMON_ORACLE_VERIFY_H_
#define PIPEWORK_DAEMON_ORACLE_VERIFY_H_

#include "absl/status/statusor.h"
#include "proto/verification.pb.h"

namespace pipework {

// Runs the job again from its spec, serially: plain where its schedule is
// synchronous, or one stage, or one unit in flight; else by replaying the
// operation logs. Then compares every tensor of the checkpoint. A pair that
// disagrees is an answer, not an error; so are logs in which a unit did not
// read the versions that its weight policy promises.
// NotFound: data, checkpoint or logs are missing. FailedPrecondition: the
// checkpoint is of another step or graph, or the logs contradict each other.
absl::StatusOr<v1::Verification> RunOracle(const v1::OracleRequest& request);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_ORACLE_VERIFY_H_
