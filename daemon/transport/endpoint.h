// The endpoint of one executor: an inbox, and a plane that takes what it sends.
#ifndef PIPEWORK_DAEMON_TRANSPORT_ENDPOINT_H_
#define PIPEWORK_DAEMON_TRANSPORT_ENDPOINT_H_

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "daemon/transport/inbox.h"
#include "daemon/transport/transport.h"

namespace pipework {

// Threads: any.
class Endpoint final : public Transport {
 public:
  // Brings a message to the inbox of its receiver, or on its way there.
  using Route = std::function<absl::Status(Message)>;

  Endpoint(SeatId seat, std::string who, Route route)
      : seat_(seat), who_(who), route_(std::move(route)), inbox_(who) {}

  absl::Status Send(Message message) override;
  absl::StatusOr<Message> Receive(const MessageId& id, const Expected* expected,
                                  absl::Time deadline) override;
  bool Ready(const MessageId& id) override { return inbox_.Ready(id); }
  void Abort(const absl::Status& cause) override;
  int64_t bytes_sent() const override { return bytes_sent_.load(); }

  SeatId seat() const { return seat_; }
  Inbox& inbox() { return inbox_; }

 private:
  const SeatId seat_;
  const std::string who_;
  const Route route_;
  Inbox inbox_;
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<bool> aborted_{false};
};

// "job j-1 attempt 1: s1.r0 at 127.0.0.1:7001"; without the address where it
// is empty.
std::string EndpointName(const DataPlaneOptions& options, SeatId seat,
                         const std::string& address);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_ENDPOINT_H_
