#include "daemon/transport/transport.h"

#include "absl/strings/str_cat.h"

namespace pipework {
namespace {

const char* Name(Channel channel) {
  switch (channel) {
    case Channel::kForward:
      return "forward";
    case Channel::kBackward:
      return "backward";
    case Channel::kEvaluate:
      return "evaluate";
    case Channel::kReduce:
      return "reduce";
    case Channel::kControl:
      return "control";
  }
  return "unknown";
}

const char* NumberName(Channel channel) {
  switch (channel) {
    case Channel::kReduce:
      return "update";
    case Channel::kControl:
      return "message";
    default:
      return "unit";
  }
}

}  // namespace

bool operator==(const MessageId& a, const MessageId& b) {
  return a.number == b.number && a.channel == b.channel && a.from == b.from &&
         a.to == b.to && a.tensor == b.tensor;
}

std::string ToString(SeatId seat) {
  return absl::StrCat("s", seat.stage.value(), ".r", seat.replica.value());
}

std::string ToString(const MessageId& id) {
  return absl::StrCat(Name(id.channel), " ", ToString(id.from), " -> ",
                      ToString(id.to), " tensor ", id.tensor, " ",
                      NumberName(id.channel), " ", id.number);
}

}  // namespace pipework
