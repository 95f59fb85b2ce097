// Courier is an executor's way to its peers: Transport with a deadline on
// every wait, errors that say who waited for what, and the stop that travels.
//
// How a stop travels: whoever learns that units from K on will not be run puts
// K on everything it sends from then on, and the smallest K seen wins. The
// leader also sends it to every seat, for those that nobody sends anything.
//
// Threads: the executor's thread makes every call but waiting_for.
#ifndef PIPEWORK_DAEMON_EXECUTOR_COURIER_H_
#define PIPEWORK_DAEMON_EXECUTOR_COURIER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/transport/transport.h"

namespace pipework {

class Courier {
 public:
  // A wait that no stop ends.
  static constexpr int64_t kNoUnit = -1;

  struct Options {
    // Opens every error: job j-1: stage 2 replica 0 (n1/cpu:1).
    std::string who;
    SeatId self;
    SeatId leader;
    // Longest wait for a peer within a segment.
    absl::Duration peer_timeout = absl::Seconds(60);
    // Longest wait for the leader or for the others between segments, which
    // includes saving.
    absl::Duration control_timeout = absl::Seconds(600);
  };

  explicit Courier(Options options);

  // Borrows `transport` for its life. Once, before the first message.
  void Attach(Transport* transport) { transport_ = transport; }

  const Options& options() const { return options_; }

  // ---- tensors ----

  // Hands the tensor over; nobody may write it any more.
  absl::Status Send(Channel channel, SeatId to, int tensor, int64_t number,
                    Tensor payload);

  // Waits for a tensor of the shape. Cancelled: the sender will never send it,
  // since `unit` is not below stop_before(). Other errors name both ends, the
  // operation, unit and minibatch.
  struct Wanted {
    Channel channel = Channel::kForward;
    SeatId from;
    int tensor = 0;
    int64_t number = 0;
    int64_t unit = kNoUnit;  // given up when it is not run
    int64_t minibatch = -1;  // for the error
  };
  absl::StatusOr<Tensor> Receive(const Wanted& wanted, const Shape& shape,
                                 DType dtype);

  // Whether Receive would return at once.
  bool Ready(const Wanted& wanted);

  // ---- the stop ----

  int64_t stop_before() const { return stop_before_; }
  // Units from `unit` on are not run; a larger one than known is ignored.
  void StopBefore(int64_t unit);
  // A new segment begins: all its units run until told otherwise.
  void ForgetStop() { stop_before_ = kNoStop; }

  // ---- control messages, in order for each pair of seats ----

  absl::Status SendControl(SeatId to, std::string text);
  // Whether a ReceiveControl would return at once.
  bool ControlReady(SeatId from);
  absl::StatusOr<std::string> ReceiveControl(SeatId from);

  // A small sign to one seat, found by number: an evaluation's credit.
  absl::Status SendCredit(SeatId to, int64_t number);
  absl::Status ReceiveCredit(SeatId from, int64_t number);

  int64_t bytes_sent() const {
    return transport_ == nullptr ? 0 : transport_->bytes_sent();
  }

  // What it waits for and for how many seconds, empty while it does not wait.
  // Any thread.
  std::string waiting_for() const;

 private:
  absl::Status Sent(const absl::Status& status) const;
  absl::StatusOr<Message> Wait(const MessageId& id,
                               const Transport::Expected* expected,
                               absl::Duration timeout, int64_t unit,
                               int64_t minibatch);
  // Takes the stop that the leader sent to every seat, where it has come.
  absl::Status LookForStop();

  Transport* transport_ = nullptr;
  const Options options_;
  int64_t stop_before_ = kNoStop;
  std::map<SeatId, int64_t> control_sent_;
  std::map<SeatId, int64_t> control_received_;

  mutable std::mutex mutex_;
  bool waiting_ = false;      // guarded by mutex_
  MessageId waiting_id_;      // guarded by mutex_
  absl::Time waiting_since_;  // guarded by mutex_
};

// s1.r0
std::string SeatName(SeatId seat);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_COURIER_H_
