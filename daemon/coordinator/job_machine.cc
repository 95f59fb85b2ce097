#include "daemon/coordinator/job_machine.h"

namespace pipework {
namespace {

using T = JobTrigger;

constexpr JobEdge kEdges[] = {
    {v1::QUEUED, T::kAdmitted, v1::PROFILING},
    {v1::QUEUED, T::kError, v1::FAILED},
    {v1::QUEUED, T::kCancelAsked, v1::CANCELLING},

    // No runner of an attempt lives yet, so nothing has to be recovered.
    {v1::PROFILING, T::kRequeued, v1::QUEUED},
    {v1::PROFILING, T::kPlaced, v1::RESERVING},
    {v1::PROFILING, T::kFault, v1::RECOVERING},
    {v1::PROFILING, T::kError, v1::FAILED},
    {v1::PROFILING, T::kCancelAsked, v1::CANCELLING},

    {v1::RESERVING, T::kReady, v1::STARTING},
    {v1::RESERVING, T::kFault, v1::RECOVERING},
    {v1::RESERVING, T::kError, v1::FAILED},
    {v1::RESERVING, T::kCancelAsked, v1::CANCELLING},

    {v1::STARTING, T::kConnected, v1::RUNNING},
    {v1::STARTING, T::kFault, v1::RECOVERING},
    {v1::STARTING, T::kError, v1::FAILED},
    {v1::STARTING, T::kCancelAsked, v1::CANCELLING},

    {v1::RUNNING, T::kFinished, v1::SUCCEEDED},
    {v1::RUNNING, T::kFault, v1::RECOVERING},
    {v1::RUNNING, T::kError, v1::FAILED},
    {v1::RUNNING, T::kCancelAsked, v1::CANCELLING},

    {v1::RECOVERING, T::kPlaced, v1::RESERVING},
    {v1::RECOVERING, T::kError, v1::FAILED},
    {v1::RECOVERING, T::kCancelAsked, v1::CANCELLING},

    // Cancelling always ends in CANCELLED, whatever breaks on the way.
    {v1::CANCELLING, T::kStopped, v1::CANCELLED},
};

}  // namespace

const char* JobTriggerName(JobTrigger trigger) {
  switch (trigger) {
    case T::kAdmitted:
      return "admitted";
    case T::kRequeued:
      return "requeued";
    case T::kPlaced:
      return "placed";
    case T::kReady:
      return "ready";
    case T::kConnected:
      return "connected";
    case T::kFinished:
      return "finished";
    case T::kFault:
      return "fault";
    case T::kError:
      return "error";
    case T::kCancelAsked:
      return "cancel asked";
    case T::kStopped:
      return "stopped";
  }
  return "unknown";
}

absl::Span<const JobEdge> JobEdges() { return kEdges; }

std::optional<v1::JobState> NextJobState(v1::JobState from, JobTrigger on) {
  for (const JobEdge& edge : kEdges) {
    if (edge.from == from && edge.on == on) return edge.to;
  }
  return std::nullopt;
}

bool IsTerminal(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

bool HasRunners(v1::JobState state) {
  return state == v1::RESERVING || state == v1::STARTING ||
         state == v1::RUNNING;
}

}  // namespace pipework
