// What the leader and the other executors say to each other between segments,
// as the text of control messages.
//
//   segment FIRST COUNT EVALUATES SAVES VERSION...   leader: run this
//   stop                                             leader: see Courier
//   finish                                           leader: it is over
//   losses RECORD...                                 loss stage
//   done STEP VERSION CODE MESSAGE                   everyone, per segment
#ifndef PIPEWORK_DAEMON_RUNNER_CONTROL_MESSAGE_H_
#define PIPEWORK_DAEMON_RUNNER_CONTROL_MESSAGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/executor/stage_executor.h"
#include "scheduler/program.h"

namespace pipework {

enum class ControlKind { kSegment, kStop, kFinish, kLosses, kDone };

// The kind of a message. InvalidArgument: none of them.
absl::StatusOr<ControlKind> KindOf(absl::string_view text);

// All but microbatches and accumulate, which everyone knows.
std::string EncodeSegment(const Segment& segment);
absl::StatusOr<Segment> DecodeSegment(absl::string_view text);

constexpr char kStopText[] = "stop";
constexpr char kFinishText[] = "finish";

std::string EncodeLosses(const std::vector<LossRecord>& records);
absl::StatusOr<std::vector<LossRecord>> DecodeLosses(absl::string_view text);

struct SegmentDone {
  int64_t step = 0;
  int64_t version = 0;
  absl::Status saved;
};
std::string EncodeDone(const SegmentDone& done);
absl::StatusOr<SegmentDone> DecodeDone(absl::string_view text);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_CONTROL_MESSAGE_H_
