// The serial oracle: what a job must come to, computed in one thread.
//
//   plain    a unit goes through all stages forward and back before the next
//            one starts: what every flush schedule, one stage, or one unit in
//            flight must give, bit for bit on the CPU
//   replay   every stage reads the versions that the pipeline's log says it
//            read, and updates where the log says: what any asynchronous
//            schedule must give, bit for bit on the CPU
//
// Shares layers, optimizers, data and the learning rate with the pipeline, and
// nothing else: no executor, transport, weight store or policy.
#ifndef PIPEWORK_DAEMON_ORACLE_ORACLE_H_
#define PIPEWORK_DAEMON_ORACLE_ORACLE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "daemon/oracle/network.h"
#include "daemon/oracle/trace.h"

namespace pipework {

struct OracleResult {
  std::vector<OracleTensor> tensors;  // weights, state, buffers by layer
  std::vector<double> losses;         // mean of each minibatch, in order
};

// Trains `drains.back()` minibatches. Groups of units that are updated together
// are counted from the drain before, and buffers are averaged at each drain;
// `drains` ascend and may repeat.
absl::StatusOr<OracleResult> RunPlain(OracleJob job,
                                      const std::vector<int64_t>& drains);

// The drains of a run of `steps` that nothing but the ends of epochs and
// checkpoints by steps interrupts.
std::vector<int64_t> UsualDrains(const OracleJob& job, int64_t steps);

// Does what `traces`, one for each seat, say. FailedPrecondition: they
// contradict each other, or read a version that no longer or never exists;
// names the seat and the record.
absl::StatusOr<OracleResult> RunReplay(OracleJob job,
                                       const std::vector<Trace>& traces);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_ORACLE_ORACLE_H_
