// The plane of a runner that has peers: executors of this runner hand over in
// process, others are reached over UCX.
//
// Each pair of runners has two kinds of connections. One is ours: the lower
// address dials the higher one, both say hello (job, attempt, nonce, the
// address of the UCX worker), and it stays open, so that a killed peer shows
// at once. The others are UCX's and carry the messages.
//
// Threads: one of its own drives UCX and all sockets; it sleeps in poll(2)
// while there is nothing to do. Any thread may call the plane.
#ifndef PIPEWORK_DAEMON_TRANSPORT_UCX_H_
#define PIPEWORK_DAEMON_TRANSPORT_UCX_H_

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/transport/transport.h"

namespace pipework {

// Listens, and returns before anyone is connected. Unavailable: no port is
// free. InvalidArgument: an option that cannot work.
//
// When it dies it first sees what was sent on its way (for two seconds at
// most, unless it was aborted) and takes leave of its peers.
absl::StatusOr<std::unique_ptr<DataPlane>> MakeUcxPlane(
    const DataPlaneOptions& options);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_UCX_H_
