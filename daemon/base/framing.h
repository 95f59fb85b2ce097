// Protobuf messages over a stream socket: 4 bytes of length, little-endian,
// then the message.
#ifndef PIPEWORK_DAEMON_BASE_FRAMING_H_
#define PIPEWORK_DAEMON_BASE_FRAMING_H_

#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"

namespace google {
namespace protobuf {
class MessageLite;
}  // namespace protobuf
}  // namespace google

namespace pipework {

// Any thread may send; one thread at a time receives.
class FrameChannel {
 public:
  // Larger messages are refused on both sides.
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  // Takes a connected stream socket; `who` opens the error messages.
  FrameChannel(UniqueFd fd, std::string who);

  // DeadlineExceeded, Unavailable (the other end is closed) and
  // InvalidArgument (over kMaxBytes). A message that was half sent at the
  // deadline breaks the channel: later sends are Unavailable.
  absl::Status Send(const google::protobuf::MessageLite& message,
                    absl::Time deadline);

  // OutOfRange: the other end closed between two messages. DataLoss: it closed
  // within one, or sent what is no such message; the channel is of no use
  // then. DeadlineExceeded: nothing whole came; what came is kept, call again.
  absl::Status Receive(google::protobuf::MessageLite* message,
                       absl::Time deadline);

  // Ends both directions; a Receive in another thread returns. The descriptor
  // stays until the channel dies.
  void Shutdown();

  // For poll(2).
  int fd() const { return fd_.get(); }

 private:
  absl::Status Fill(size_t wanted, absl::Time deadline);

  const UniqueFd fd_;
  const std::string who_;
  std::mutex send_mutex_;
  bool send_broken_ = false;  // guarded by send_mutex_
  std::string received_;      // the receiver's: what has come of a frame
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_FRAMING_H_
