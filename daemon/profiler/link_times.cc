#include "daemon/profiler/link_times.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// A small message there and back, so often; the first ones are warm-up.
constexpr int kPings = 30;
constexpr int kWarmPings = 5;
constexpr int64_t kPingFloats = 16;
// Growing messages until one takes long enough to be told from its latency.
constexpr int64_t kFirstFloats = (64 << 10) / 4;
constexpr int kGrowth = 4;
constexpr int kSizes = 4;  // 64 KiB, 256 KiB, 1 MiB, 4 MiB
constexpr int kTries = 5;  // of each size; the fastest counts
constexpr absl::Duration kLongEnough = absl::Milliseconds(5);

constexpr char kMore[] = "more";
constexpr char kEnough[] = "enough";

// One end of a link.
class End {
 public:
  End(Transport& transport, Allocator& allocator, SeatId self, SeatId peer,
      absl::Time deadline)
      : transport_(transport),
        allocator_(allocator),
        self_(self),
        peer_(peer),
        deadline_(deadline) {}

  absl::Status SendFloats(int64_t floats) {
    // The next one of the same size costs no memory that is new.
    if (payload_.empty() || payload_.elements() != floats) {
      ASSIGN_OR_RETURN(payload_,
                       Tensor::Zeros(allocator_, Shape{floats}, DType::kF32,
                                     MemoryUse::kMessages));
    }
    Message message;
    message.id = {Channel::kForward, self_, peer_, 0, sent_++};
    message.tensor = payload_;
    return transport_.Send(std::move(message));
  }
  absl::Status ReceiveFloats(int64_t floats) {
    const Transport::Expected expected{Shape{floats}, DType::kF32};
    return transport_
        .Receive({Channel::kForward, peer_, self_, 0, received_++}, &expected,
                 deadline_)
        .status();
  }
  absl::Status SendWord(const std::string& word) {
    Message message;
    message.id = {Channel::kControl, self_, peer_, 0, words_sent_++};
    message.text = word;
    return transport_.Send(std::move(message));
  }
  absl::StatusOr<std::string> ReceiveWord() {
    ASSIGN_OR_RETURN(const Message message,
                     transport_.Receive({Channel::kControl, peer_, self_, 0,
                                         words_received_++},
                                        nullptr, deadline_));
    return message.text;
  }

 private:
  Transport& transport_;
  Allocator& allocator_;
  const SeatId self_;
  const SeatId peer_;
  const absl::Time deadline_;
  Tensor payload_;
  int64_t sent_ = 0;
  int64_t received_ = 0;
  int64_t words_sent_ = 0;
  int64_t words_received_ = 0;
};

absl::Status Answer(End& end) {
  for (int i = 0; i < kPings; ++i) {
    RETURN_IF_ERROR(end.ReceiveFloats(kPingFloats));
    RETURN_IF_ERROR(end.SendFloats(kPingFloats));
  }
  for (int64_t floats = kFirstFloats;; floats *= kGrowth) {
    ASSIGN_OR_RETURN(const std::string word, end.ReceiveWord());
    if (word != kMore) return absl::OkStatus();
    for (int i = 0; i < kTries; ++i) {
      RETURN_IF_ERROR(end.ReceiveFloats(floats));
      RETURN_IF_ERROR(end.SendFloats(kPingFloats));
    }
  }
}

absl::Status Lead(End& end, v1::LinkMeasurement* link) {
  std::vector<absl::Duration> pings;
  for (int i = 0; i < kPings; ++i) {
    const absl::Time begin = MonotonicNow();
    RETURN_IF_ERROR(end.SendFloats(kPingFloats));
    RETURN_IF_ERROR(end.ReceiveFloats(kPingFloats));
    if (i >= kWarmPings) pings.push_back(MonotonicNow() - begin);
  }
  std::nth_element(pings.begin(), pings.begin() + pings.size() / 2,
                   pings.end());
  const absl::Duration there_and_back = pings[pings.size() / 2];
  link->set_latency_seconds(absl::ToDoubleSeconds(there_and_back) / 2);
  int64_t floats = kFirstFloats;
  for (int size = 0; size < kSizes; ++size, floats *= kGrowth) {
    RETURN_IF_ERROR(end.SendWord(kMore));
    absl::Duration fastest = absl::InfiniteDuration();
    for (int i = 0; i < kTries; ++i) {
      const absl::Time begin = MonotonicNow();
      RETURN_IF_ERROR(end.SendFloats(floats));
      RETURN_IF_ERROR(end.ReceiveFloats(kPingFloats));
      fastest = std::min(fastest, MonotonicNow() - begin);
    }
    // What the bytes took beside the latency; as good as nothing is a tenth.
    const absl::Duration moving =
        std::max(fastest - there_and_back, fastest / 10);
    link->set_bytes_per_second(static_cast<double>(4 * floats) /
                               absl::ToDoubleSeconds(moving));
    if (fastest >= kLongEnough) break;
  }
  link->set_measured_at(absl::ToUnixSeconds(absl::Now()));
  return end.SendWord(kEnough);
}

}  // namespace

SeatId LinkSeat(int index) { return SeatId{StageId(index), ReplicaId(0)}; }

absl::StatusOr<std::vector<v1::LinkMeasurement>> MeasureLinks(
    const v1::RunnerLinks& request, DataPlane& plane, Allocator& allocator,
    absl::Time deadline) {
  std::vector<v1::LinkMeasurement> links;
  const int self = request.index();
  for (const v1::RunnerLinks::Pair& pair : request.pairs()) {
    if (pair.a() < 0 || pair.b() < 0 || pair.a() >= request.nodes_size() ||
        pair.b() >= request.nodes_size() || pair.a() == pair.b()) {
      return Mismatch("links", "a pair",
                      absl::StrCat(pair.a(), " and ", pair.b()),
                      absl::StrCat("two of ", request.nodes_size(), " nodes"));
    }
    if (pair.a() != self && pair.b() != self) continue;
    const bool leads = pair.a() == self;
    End end(plane.endpoint(LinkSeat(self)), allocator, LinkSeat(self),
            LinkSeat(leads ? pair.b() : pair.a()), deadline);
    if (!leads) {
      RETURN_IF_ERROR(Answer(end));
      continue;
    }
    v1::LinkMeasurement& link = links.emplace_back();
    link.set_a(request.nodes(pair.a()));
    link.set_b(request.nodes(pair.b()));
    RETURN_IF_ERROR(Lead(end, &link));
  }
  return links;
}

}  // namespace pipework
