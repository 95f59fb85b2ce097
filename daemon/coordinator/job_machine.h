// The life of a job as a table: which state follows which on what. Whatever
// is not in the table is refused. Pure: no gRPC, no threads, no clock.
//
//   QUEUED -> PROFILING -> RESERVING -> STARTING -> RUNNING -> SUCCEEDED
//   a fault in an attempt -> RECOVERING -> RESERVING (attempt + 1)
//   any state that is not an end -> FAILED, or -> CANCELLING -> CANCELLED
#ifndef PIPEWORK_DAEMON_COORDINATOR_JOB_MACHINE_H_
#define PIPEWORK_DAEMON_COORDINATOR_JOB_MACHINE_H_

#include <optional>

#include "absl/types/span.h"
#include "proto/coordinator.pb.h"

namespace pipework {

// What moves a job on.
enum class JobTrigger {
  kAdmitted,     // its turn, and devices are free
  kRequeued,     // the devices it was measured on are gone
  kPlaced,       // planned, placed, devices reserved
  kReady,        // every runner has built its executors
  kConnected,    // every runner reached its peers
  kFinished,     // the run came to its end and its checkpoint is published
  kFault,        // the attempt broke and another one is allowed
  kError,        // it can not go on
  kCancelAsked,  // a user stops it
  kStopped,      // nothing of it runs any more
};
constexpr JobTrigger kJobTriggers[] = {
    JobTrigger::kAdmitted, JobTrigger::kRequeued,  JobTrigger::kPlaced,
    JobTrigger::kReady,    JobTrigger::kConnected, JobTrigger::kFinished,
    JobTrigger::kFault,    JobTrigger::kError,     JobTrigger::kCancelAsked,
    JobTrigger::kStopped,
};
const char* JobTriggerName(JobTrigger trigger);

struct JobEdge {
  v1::JobState from;
  JobTrigger on;
  v1::JobState to;
};

// The whole table.
absl::Span<const JobEdge> JobEdges();

// The state after `on`; nothing where the table has no such edge.
std::optional<v1::JobState> NextJobState(v1::JobState from, JobTrigger on);

// SUCCEEDED, FAILED or CANCELLED: no edge leaves it.
bool IsTerminal(v1::JobState state);

// Whether an attempt holds runners in this state.
bool HasRunners(v1::JobState state);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_JOB_MACHINE_H_
