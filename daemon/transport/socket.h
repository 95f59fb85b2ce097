// TCP sockets of the data plane: host:port texts, listening in a range of
// ports, dialling with a deadline.
#ifndef PIPEWORK_DAEMON_TRANSPORT_SOCKET_H_
#define PIPEWORK_DAEMON_TRANSPORT_SOCKET_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"

namespace pipework {

struct HostPort {
  std::string host;
  int port = 0;
};
// "10.0.0.2:7001", "n1:7001", "[::1]:7001". InvalidArgument: anything else.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);
std::string JoinHostPort(const std::string& host, int port);

// Listens on the first free port of [first, last]; 0: any. Unavailable names
// host, range and the last cause.
struct Listener {
  UniqueFd fd;  // non-blocking
  int port = 0;
};
absl::StatusOr<Listener> Listen(const std::string& host, int first, int last);

// A connected, non-blocking socket with keepalive: a dead link shows within
// five seconds. Unavailable: refused or unreachable, try again.
absl::StatusOr<UniqueFd> Dial(const std::string& address, absl::Time deadline);

// Sets keepalive and no-delay.
void TuneSocket(int fd);

// host:port of the other end, for messages.
std::string PeerName(int fd);

// Network interface that has the address `host`.
struct Interface {
  std::string name;      // empty: none has it alone (0.0.0.0)
  bool running = false;  // it has a link
};
Interface InterfaceOf(const std::string& host);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_SOCKET_H_
