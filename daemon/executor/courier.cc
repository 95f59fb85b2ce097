#include "daemon/executor/courier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/clock.h"
#include "daemon/executor/reason.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// How often a wait looks whether the unit is still to come: only where the
// stop did not arrive with a message.
constexpr absl::Duration kSlice = absl::Milliseconds(500);

// Control messages are tensor 0 of their channel, credits are tensor 1.
constexpr int kControlTensor = 0;
constexpr int kCreditTensor = 1;

}  // namespace

std::string SeatName(SeatId seat) {
  return absl::StrCat("s", seat.stage.value(), ".r", seat.replica.value());
}

Courier::Courier(Options options) : options_(std::move(options)) {}

absl::Status Courier::Send(Channel channel, SeatId to, int tensor,
                           int64_t number, Tensor payload) {
  Message message;
  message.id = {channel, options_.self, to, tensor, number};
  message.stop_before = stop_before_;
  message.tensor = std::move(payload);
  return Sent(transport_->Send(std::move(message)));
}

absl::Status Courier::Sent(const absl::Status& status) const {
  if (status.ok()) return status;
  const absl::Status error = WithContext(options_.who, status);
  return absl::IsUnavailable(status) ? CausedByPeer(error) : error;
}

absl::StatusOr<Message> Courier::Wait(const MessageId& id,
                                      const Transport::Expected* expected,
                                      absl::Duration timeout, int64_t unit,
                                      int64_t minibatch) {
  if (unit >= stop_before_) return absl::CancelledError("stopped");
  const absl::Time since = MonotonicNow();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_ = true;
    waiting_id_ = id;
    waiting_since_ = since;
  }
  const absl::Time deadline = since + timeout;
  absl::StatusOr<Message> message;
  for (;;) {
    const absl::Time slice = std::min(deadline, MonotonicNow() + kSlice);
    message = transport_->Receive(id, expected, slice);
    if (!absl::IsDeadlineExceeded(message.status()) || slice == deadline) break;
    if (id.channel != Channel::kControl) RETURN_IF_ERROR(LookForStop());
    if (unit >= stop_before_) {
      message = absl::CancelledError("stopped");
      break;
    }
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_ = false;
  }
  if (message.ok()) {
    StopBefore(message->stop_before);
    return message;
  }
  if (absl::IsCancelled(message.status())) return message;
  std::string what = absl::StrCat(options_.who, ": waiting for ", ToString(id));
  if (minibatch >= 0) absl::StrAppend(&what, " of minibatch ", minibatch);
  if (absl::IsDeadlineExceeded(message.status())) {
    return absl::DeadlineExceededError(absl::StrCat(
        what, ": time without it is ", absl::FormatDuration(timeout),
        ", expected less; see what ", SeatName(id.from), " does"));
  }
  const absl::Status error = WithContext(what, message.status());
  return absl::IsUnavailable(error) ? CausedByPeer(error) : error;
}

absl::Status Courier::LookForStop() {
  // Within a segment the leader says nothing else.
  while (!(options_.leader == options_.self) && ControlReady(options_.leader)) {
    int64_t& received = control_received_[options_.leader];
    ASSIGN_OR_RETURN(
        const Message message,
        transport_->Receive({Channel::kControl, options_.leader, options_.self,
                             kControlTensor, received},
                            nullptr, MonotonicNow() + kSlice));
    ++received;
    StopBefore(message.stop_before);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Courier::Receive(const Wanted& wanted,
                                        const Shape& shape, DType dtype) {
  const MessageId id{wanted.channel, wanted.from, options_.self, wanted.tensor,
                     wanted.number};
  const Transport::Expected expected{shape, dtype};
  ASSIGN_OR_RETURN(Message message, Wait(id, &expected, options_.peer_timeout,
                                         wanted.unit, wanted.minibatch));
  if (message.tensor.shape() != shape || message.tensor.dtype() != dtype) {
    return Mismatch(options_.who, ToString(id),
                    absl::StrCat(DTypeName(message.tensor.dtype()),
                                 message.tensor.shape().ToString()),
                    absl::StrCat(DTypeName(dtype), shape.ToString()));
  }
  return std::move(message.tensor);
}

bool Courier::Ready(const Wanted& wanted) {
  return transport_->Ready({wanted.channel, wanted.from, options_.self,
                            wanted.tensor, wanted.number});
}

void Courier::StopBefore(int64_t unit) {
  stop_before_ = std::min(stop_before_, unit);
}

absl::Status Courier::SendControl(SeatId to, std::string text) {
  Message message;
  message.id = {Channel::kControl, options_.self, to, kControlTensor,
                control_sent_[to]++};
  message.stop_before = stop_before_;
  message.text = std::move(text);
  return Sent(transport_->Send(std::move(message)));
}

bool Courier::ControlReady(SeatId from) {
  return transport_->Ready({Channel::kControl, from, options_.self,
                            kControlTensor, control_received_[from]});
}

absl::StatusOr<std::string> Courier::ReceiveControl(SeatId from) {
  const MessageId id{Channel::kControl, from, options_.self, kControlTensor,
                     control_received_[from]};
  ASSIGN_OR_RETURN(Message message, Wait(id, nullptr, options_.control_timeout,
                                         kNoUnit, /*minibatch=*/-1));
  ++control_received_[from];
  return std::move(message.text);
}

absl::Status Courier::SendCredit(SeatId to, int64_t number) {
  Message message;
  message.id = {Channel::kControl, options_.self, to, kCreditTensor, number};
  message.text = "credit";
  return Sent(transport_->Send(std::move(message)));
}

absl::Status Courier::ReceiveCredit(SeatId from, int64_t number) {
  return Wait({Channel::kControl, from, options_.self, kCreditTensor, number},
              nullptr, options_.peer_timeout, kNoUnit, number)
      .status();
}

std::string Courier::waiting_for() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!waiting_) return "";
  return absl::StrFormat(
      "%s, %.1f s", ToString(waiting_id_),
      absl::ToDoubleSeconds(MonotonicNow() - waiting_since_));
}

}  // namespace pipework
