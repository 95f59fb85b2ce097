// Greetings on new connections: who may join the data plane of an attempt.
#ifndef PIPEWORK_DAEMON_TRANSPORT_HANDSHAKE_H_
#define PIPEWORK_DAEMON_TRANSPORT_HANDSHAKE_H_

#include <poll.h>

#include <list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/base/unique_fd.h"
#include "daemon/transport/ucx_wire.h"

namespace pipework {

// Dials, says hello, and reads the answer. Unavailable, DeadlineExceeded: try
// again. PermissionDenied: the peer refused, with its reason, or is not the
// one that was dialled.
struct Dialled {
  UniqueFd socket;
  Hello hello;
};
absl::StatusOr<Dialled> DialAndGreet(const std::string& address,
                                     const Hello& self, absl::Time deadline);

// OK where `hello` belongs to the same job, attempt and nonce as `self`.
absl::Status CheckHello(const Hello& self, const Hello& hello);

// The accepting side. One thread; it never waits.
class Handshakes {
 public:
  // Takes a listening, non-blocking socket.
  Handshakes(UniqueFd listener, Hello self)
      : listener_(std::move(listener)), self_(std::move(self)) {}

  const Hello& self() const { return self_; }

  // What to poll for, and by when at the latest to call Handle.
  void AddTo(std::vector<pollfd>* entries) const;
  absl::Time next_deadline() const;
  // Accepts, reads and judges; `entries` are those of the last AddTo.
  void Handle(absl::Span<const pollfd> entries);

  // Those who said the right hello and wait for an answer.
  struct Greeted {
    UniqueFd socket;
    std::string from;  // host:port of the other end
    Hello hello;
  };
  std::vector<Greeted> TakeGreeted();
  // False: the other end is gone.
  bool Answer(const Greeted& greeted, const std::string& bytes);

  // Those who did not, since the last call; they are closed.
  struct Refusal {
    std::string from;
    std::string why;
  };
  std::vector<Refusal> TakeRefused();

 private:
  struct Stranger {
    UniqueFd socket;
    std::string from;
    std::string unread;
    absl::Time deadline;
  };
  void Accept();
  // True: it is settled, one way or the other.
  bool Read(Stranger& stranger);

  const UniqueFd listener_;
  const Hello self_;
  std::list<Stranger> strangers_;
  std::vector<Greeted> greeted_;
  std::vector<Refusal> refused_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_HANDSHAKE_H_
