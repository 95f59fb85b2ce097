#include "daemon/transport/in_process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/check.h"
#include "proto/errors.h"

namespace pipework {

absl::Status InProcessPlane::Connect(const std::vector<Seat>& seats,
                                     absl::Time deadline) {
  for (const Seat& seat : seats) {
    if (!seat.address.empty()) {
      return Mismatch("in_process plane",
                      absl::StrCat("the address of ", ToString(seat.seat)),
                      absl::StrCat("\"", seat.address, "\""), "none",
                      "use the ucx plane for more than one runner");
    }
    const bool fresh =
        endpoints_
            .emplace(seat.seat,
                     std::make_unique<Endpoint>(
                         seat.seat, EndpointName(options_, seat.seat, ""),
                         [this](Message m) { return Route(std::move(m)); }))
            .second;
    if (!fresh) {
      return absl::InvalidArgumentError(absl::StrCat(
          "in_process plane: ", ToString(seat.seat), " is in the seats twice"));
    }
  }
  return absl::OkStatus();
}

Transport& InProcessPlane::endpoint(SeatId seat) {
  const auto it = endpoints_.find(seat);
  PIPE_CHECK(it != endpoints_.end());
  return *it->second;
}

absl::Status InProcessPlane::Route(Message message) {
  const auto it = endpoints_.find(message.id.to);
  if (it == endpoints_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("in_process plane: ", ToString(message.id), ": ",
                     ToString(message.id.to), " is not in the placement"));
  }
  Inbox& inbox = it->second->inbox();
  if (buffering_ == Buffering::kUnbounded ||
      (buffering_ == Buffering::kOneSlot &&
       inbox.PendingFrom(message.id.from) == 0)) {
    return inbox.Deliver(std::move(message));
  }
  Inbox::Announcement announcement;
  announcement.id = message.id;
  announcement.has_tensor = !message.tensor.empty();
  announcement.shape = message.tensor.shape();
  announcement.dtype = message.tensor.dtype();
  // The closure is the sender's side: it keeps the message until then.
  auto kept = std::make_shared<Message>(std::move(message));
  return inbox.Announce(announcement, /*prefetch=*/false,
                        [&inbox, kept](bool fetch) {
                          if (fetch) inbox.Fulfil(std::move(*kept));
                        });
}

void InProcessPlane::Abort(const absl::Status& cause) {
  for (auto& [seat, endpoint] : endpoints_) endpoint->Abort(cause);
}

int64_t InProcessPlane::refused_messages() const {
  int64_t refused = 0;
  for (const auto& [seat, endpoint] : endpoints_) {
    refused += endpoint->inbox().refused();
  }
  return refused;
}

}  // namespace pipework
