#include "daemon/transport/endpoint.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/failpoint.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {

absl::Status Endpoint::Send(Message message) {
  RETURN_IF_ERROR(FAILPOINT("transport.send"));
  if (!(message.id.from == seat_)) {
    return Mismatch(who_, absl::StrCat("sender of ", ToString(message.id)),
                    ToString(message.id.from), ToString(seat_));
  }
  if (aborted_.load()) {
    return absl::UnavailableError(absl::StrCat(who_, ": ", ToString(message.id),
                                               ": the transport was aborted"));
  }
  const int64_t bytes = message.tensor.empty() ? 0 : message.tensor.bytes();
  RETURN_IF_ERROR(route_(std::move(message)));
  bytes_sent_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<Message> Endpoint::Receive(const MessageId& id,
                                          const Expected* expected,
                                          absl::Time deadline) {
  RETURN_IF_ERROR(FAILPOINT("transport.receive"));
  if (!(id.to == seat_)) {
    return Mismatch(who_, absl::StrCat("receiver of ", ToString(id)),
                    ToString(id.to), ToString(seat_));
  }
  return inbox_.Receive(id, expected, deadline);
}

void Endpoint::Abort(const absl::Status& cause) {
  aborted_.store(true);
  inbox_.Abort(cause);
}

std::string EndpointName(const DataPlaneOptions& options, SeatId seat,
                         const std::string& address) {
  return absl::StrCat("job ", options.job, " attempt ", options.attempt, ": ",
                      ToString(seat), address.empty() ? "" : " at ", address);
}

}  // namespace pipework
