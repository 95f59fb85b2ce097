// Which version of a stage's weights a unit reads, and which versions must be
// kept. A policy sees a snapshot and returns a decision: no members, no clock,
// no I/O. Buffers belong to the executor.
#ifndef PIPEWORK_SCHEDULER_VERSIONING_POLICY_H_
#define PIPEWORK_SCHEDULER_VERSIONING_POLICY_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/ids.h"
#include "scheduler/program.h"

namespace pipework {

struct VersionQuery {
  WeightVersion newest;  // published last on this stage
  // What was newest on stage 0 when the unit entered, in this stage's count.
  WeightVersion at_entry;
  WeightVersion forward_read;  // what this unit's forward read here
  // At the last drain: nothing older is left.
  WeightVersion first;
  // The version that the update which sums this unit's gradient starts from.
  WeightVersion applied_to;
};

// What is in flight on one stage replica when an update is about to happen.
struct Flight {
  WeightVersion newest;
  // What the units that wait for their backward have read, in any order.
  std::vector<WeightVersion> forward_reads;
  // The oldest version that forwards still to come in the segment read.
  WeightVersion oldest_to_come{std::numeric_limits<int64_t>::max()};

  // newest + 1 when nothing is in flight.
  WeightVersion OldestForwardRead() const;
};

// Pure: the same query always gets the same answer. Any thread.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual WeightVersion ForForward(const VersionQuery& q) const = 0;
  virtual WeightVersion ForBackward(const VersionQuery& q) const = 0;

  // The oldest version that may still be asked for once the update that is
  // about to happen is done; the store keeps it and all newer ones.
  // newest + 1: the newest may be overwritten in place.
  virtual WeightVersion OldestStillAskedFor(const Flight& flight) const = 0;

  // Most versions that a replica of the stage ever holds, the newest included.
  virtual int MostVersions(const PipelineShape& shape, StageId stage,
                           int accumulate) const = 0;
};

struct PolicyEntry {
  absl::string_view name;
  absl::string_view summary;
  const Policy* (*get)();
};

// The policies in the order a reader wants.
absl::Span<const PolicyEntry> Policies();

// Lives as long as the process. NotFound lists the known ones.
absl::StatusOr<const Policy*> FindPolicy(absl::string_view name);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_VERSIONING_POLICY_H_
