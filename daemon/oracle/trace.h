// Trace: what one stage replica did, read back from its operation log.
#ifndef PIPEWORK_DAEMON_ORACLE_TRACE_H_
#define PIPEWORK_DAEMON_ORACLE_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace pipework {

struct TraceRecord {
  char operation = ' ';  // F, B, U or D; others are left out
  int64_t number = 0;    // of the unit; of the update for U
  int64_t minibatch = 0;
  int64_t version_read = -1;
  int64_t version_written = -1;
};

struct Trace {
  int stage = 0;
  int replica = 0;
  std::vector<TraceRecord> records;
};

// One line a record: operation, number, minibatch, microbatch, version read,
// version written. InvalidArgument names `file` and line.
absl::StatusOr<std::vector<TraceRecord>> ParseTrace(const std::string& file,
                                                    absl::string_view text);

// The log of every seat of `plan`, oplog-s<stage>-r<replica>.txt in one of
// `folders`. NotFound names the first seat without one.
absl::StatusOr<std::vector<Trace>> ReadTraces(
    const std::vector<std::string>& folders, const v1::Plan& plan);

// A weight policy, as far as its logs must show it.
struct Promise {
  std::string weights = "stash";
  int64_t accumulate = 1;
  // By stage: units of one round of its replicas. Empty: not asked for.
  std::vector<int64_t> rounds;
};

// What a job that ran promises.
Promise PromiseOf(const v1::JobSpec& spec, const v1::Plan& plan);

// What the policy promises, asked of each trace by itself. Of all: an update
// reads the newest version and writes the next; nothing is in flight at a
// drain; a version is read only when it exists. A forward reads
//   stash, flush, none  the newest version that this seat has made
//   vertical_sync       what was newest on stage 0 when the unit entered
//   two_version         one update before the newest of its minibatch
// and a backward what its forward read; with none, the newest. One line about
// the first record that breaks it; empty: none.
std::string FirstBrokenPromise(const std::vector<Trace>& traces,
                               const Promise& promise = Promise());

// The steps at which the run was drained, ascending; one appears again where
// nothing ran in between.
std::vector<int64_t> DrainsOf(const std::vector<Trace>& traces);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_ORACLE_TRACE_H_
