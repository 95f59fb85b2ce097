#include "daemon/coordinator/rpc_error.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/check.h"
#include "proto/rpc_status.pb.h"

namespace pipework {
namespace {

constexpr char kPayload[] = "pipework.v1/rpc_status";
constexpr size_t kMaxMessageBytes = 4000;
constexpr size_t kMaxDetailBytes = 32 << 10;

google::rpc::Status DetailsOf(const absl::Status& status) {
  google::rpc::Status details;
  const auto payload = status.GetPayload(kPayload);
  if (payload.has_value()) {
    details.ParseFromString(std::string(*payload));
  }
  return details;
}

void SetDetails(const google::rpc::Status& details, absl::Status* status) {
  status->SetPayload(kPayload, absl::Cord(details.SerializeAsString()));
}

const char* UsualReason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case absl::StatusCode::kNotFound:
      return "JOB_NOT_FOUND";
    case absl::StatusCode::kAlreadyExists:
      return "REQUEST_ID_REUSED";
    case absl::StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case absl::StatusCode::kAborted:
      return "ABORTED";
    case absl::StatusCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case absl::StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case absl::StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case absl::StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case absl::StatusCode::kUnauthenticated:
      return "TOKEN_REQUIRED";
    case absl::StatusCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case absl::StatusCode::kDataLoss:
      return "DATA_LOSS";
    case absl::StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    default:
      return "INTERNAL";
  }
}

// One line, short enough for a header.
std::string OneLine(absl::string_view text) {
  std::string line(text.substr(0, kMaxMessageBytes));
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  if (text.size() > line.size()) line += " ...";
  return line;
}

}  // namespace

absl::Status WithReason(const absl::Status& status, absl::string_view reason) {
  if (status.ok()) return status;
  absl::Status out = status;
  google::rpc::Status details = DetailsOf(status);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain("pipework.v1");
  google::rpc::Status fresh;
  fresh.add_details()->PackFrom(info);
  for (const auto& detail : details.details()) {
    if (!detail.Is<google::rpc::ErrorInfo>()) *fresh.add_details() = detail;
  }
  SetDetails(fresh, &out);
  return out;
}

absl::Status SpecRejected(const std::vector<v1::Problem>& problems) {
  PIPE_CHECK(!problems.empty());
  google::rpc::Status details;
  google::rpc::BadRequest bad;
  const size_t count =
      std::min(problems.size(), static_cast<size_t>(kMaxProblems));
  size_t bytes = 0;
  size_t told = 0;
  for (; told < count && bytes < kMaxDetailBytes / 2; ++told) {
    const v1::Problem& problem = problems[told];
    auto* violation = bad.add_field_violations();
    violation->set_field(problem.field());
    violation->set_description(
        absl::StrCat("got ", problem.got(), ", expected ", problem.expected(),
                     problem.hint().empty() ? "" : "; ", problem.hint()));
    bytes += problem.ByteSizeLong();
    details.add_details()->PackFrom(problem);
  }
  details.add_details()->PackFrom(bad);
  const v1::Problem& first = problems[0];
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(
      "job spec rejected: ", problems.size(),
      problems.size() == 1 ? " problem" : " problems",
      told < problems.size() ? absl::StrCat(" (the first ", told, " and ",
                                            problems.size() - told, " more)")
                             : "",
      "; ", first.field().empty() ? "spec" : first.field(), ": got ",
      first.got(), ", expected ", first.expected()));
  SetDetails(details, &status);
  return WithReason(status, "INVALID_SPEC");
}

grpc::Status ToRpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::Status full = ReasonOf(status).empty()
                                ? WithReason(status, UsualReason(status.code()))
                                : status;
  google::rpc::Status details = DetailsOf(full);
  const std::string message = OneLine(full.message());
  details.set_code(static_cast<int>(full.code()));
  details.set_message(message);
  return grpc::Status(static_cast<grpc::StatusCode>(full.code()), message,
                      details.SerializeAsString());
}

absl::Status FromRpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()),
                   status.error_message());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    SetDetails(details, &out);
  }
  return out;
}

std::string ReasonOf(const absl::Status& status) {
  const google::rpc::Status details = DetailsOf(status);
  for (const auto& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return std::string();
}

}  // namespace pipework
