// The plane of a job that has one runner: a message goes from hand to hand,
// without a copy. Two more ways of keeping it serve as tests: a schedule that
// works only because a transport has buffers hangs in them.
#ifndef PIPEWORK_DAEMON_TRANSPORT_IN_PROCESS_H_
#define PIPEWORK_DAEMON_TRANSPORT_IN_PROCESS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/transport/endpoint.h"
#include "daemon/transport/transport.h"

namespace pipework {

enum class Buffering {
  kUnbounded,  // the receiver's inbox takes everything
  kOneSlot,    // the inbox takes one message of each sender, the others stay
               // with their senders until they are asked for
  kZero,       // every message stays with its sender until it is asked for
};

class InProcessPlane final : public DataPlane {
 public:
  InProcessPlane(const DataPlaneOptions& options, Buffering buffering)
      : options_(options), buffering_(buffering) {}

  std::string address() const override { return ""; }
  // InvalidArgument: a seat has an address, or comes twice.
  absl::Status Connect(const std::vector<Seat>& seats,
                       absl::Time deadline) override;
  Transport& endpoint(SeatId seat) override;
  // There is no peer.
  void OnPeerLost(std::function<void(const absl::Status&)>) override {}
  void Abort(const absl::Status& cause) override;
  int64_t refused_messages() const override;

 private:
  absl::Status Route(Message message);

  const DataPlaneOptions options_;
  const Buffering buffering_;
  std::map<SeatId, std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_IN_PROCESS_H_
