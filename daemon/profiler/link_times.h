// What it takes to send a message to another node and how many bytes a second
// go there, measured over the data plane that jobs use.
//
// One plane on each node; each pair of nodes has one that sends and takes the
// time, and one that answers. Pairs are measured one after another, in the
// order of the list, where they share a node.
#ifndef PIPEWORK_DAEMON_PROFILER_LINK_TIMES_H_
#define PIPEWORK_DAEMON_PROFILER_LINK_TIMES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/transport/transport.h"
#include "proto/node.pb.h"

namespace pipework {

// The seat that stands for node `index` of a measurement.
SeatId LinkSeat(int index);

// Does node request.index()'s part in every pair, on the calling thread, and
// returns the links that it led. A pair takes some milliseconds; on a slow
// link no more than a message of 64 KiB, or what 20 ms hold, is sent at once.
// REQUIRES: `plane` is connected to the nodes of all its pairs.
// Unavailable, DeadlineExceeded: a peer went away, or was not heard in time.
// InvalidArgument: a pair that names no two nodes.
absl::StatusOr<std::vector<v1::LinkMeasurement>> MeasureLinks(
    const v1::RunnerLinks& request, DataPlane& plane, Allocator& allocator,
    absl::Time deadline);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_PROFILER_LINK_TIMES_H_
