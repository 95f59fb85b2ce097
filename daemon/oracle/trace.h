// Trace: what one stage replica did, read back from its operation log.
#ifndef PIPEWORK_DAEMON_ORACLE_TRACE_H_
#define PIPEWORK_DAEMON_ORACLE_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// What weight stashing promises, and a flush too, asked of each trace by
// itself: a forward reads the newest version that this seat has made; a
// backward reads the version that its forward read; an update reads the newest
// version and writes the next; nothing is in flight at a drain. One line about
// the first record that breaks it; empty: none.
std::string FirstBrokenPromise(const std::vector<Trace>& traces);

// The steps at which the run was drained, ascending; one appears again where
// nothing ran in between.
std::vector<int64_t> DrainsOf(const std::vector<Trace>& traces);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_ORACLE_TRACE_H_
