#include "daemon/executor/reason.h"

#include <utility>

#include "absl/strings/cord.h"

namespace pipework {
namespace {

constexpr char kReasonUrl[] = "pipework.v1/reason";
constexpr char kPeerUrl[] = "pipework.v1/caused_by_peer";

}  // namespace

absl::Status WithReason(absl::Status status, absl::string_view reason) {
  if (!status.ok() && !status.GetPayload(kReasonUrl).has_value()) {
    status.SetPayload(kReasonUrl, absl::Cord(reason));
  }
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  if (const auto reason = status.GetPayload(kReasonUrl)) {
    return std::string(*reason);
  }
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return "";
    case absl::StatusCode::kResourceExhausted:
      return "OUT_OF_MEMORY";
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
      return "DATA_ERROR";
    case absl::StatusCode::kDeadlineExceeded:
      return "PEER_TIMEOUT";
    case absl::StatusCode::kUnavailable:
      return IsCausedByPeer(status) ? "PEER_LOST" : "EXECUTOR_ERROR";
    case absl::StatusCode::kCancelled:
      return "CANCELLED";
    default:
      return "EXECUTOR_ERROR";
  }
}

absl::Status CausedByPeer(absl::Status status) {
  if (!status.ok()) status.SetPayload(kPeerUrl, absl::Cord("1"));
  return status;
}

bool IsCausedByPeer(const absl::Status& status) {
  return status.GetPayload(kPeerUrl).has_value();
}

}  // namespace pipework
