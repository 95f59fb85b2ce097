#include "daemon/transport/inbox.h"

#include <catch2/catch.hpp>
#include <thread>

#include "absl/strings/match.h"
#include "daemon/base/clock.h"

namespace pipework {
namespace {

SeatId Seat(int stage) { return SeatId{StageId(stage), ReplicaId(0)}; }
MessageId Unit(int64_t unit, int from = 0) {
  return MessageId{Channel::kForward, Seat(from), Seat(1), 0, unit};
}
absl::Time Soon() { return MonotonicNow() + absl::Seconds(30); }

Message With(MessageId id, int64_t elements, float value = 0) {
  static const auto allocator = MakeHostAllocator();
  Message message;
  message.id = id;
  message.tensor =
      *Tensor::Zeros(*allocator, {elements}, DType::kF32, MemoryUse::kMessages);
  if (elements > 0) message.tensor.f32()[0] = value;
  return message;
}

Inbox::Announcement About(MessageId id, int64_t elements) {
  Inbox::Announcement announcement;
  announcement.id = id;
  announcement.has_tensor = true;
  announcement.shape = {elements};
  return announcement;
}

TEST_CASE("inbox: four senders and a receiver that asks in another order") {
  Inbox inbox("here");
  constexpr int kUnits = 500;
  std::vector<std::thread> senders;
  for (int from = 2; from < 6; ++from) {
    senders.emplace_back([&inbox, from] {
      for (int unit = 0; unit < kUnits; ++unit) {
        (void)inbox.Deliver(With(Unit(unit, from), 1, from * 1000 + unit));
      }
    });
  }
  const Transport::Expected expected{{1}, DType::kF32};
  int wrong = 0;
  for (int unit = kUnits - 1; unit >= 0; --unit) {
    for (int from = 5; from >= 2; --from) {
      auto got = inbox.Receive(Unit(unit, from), &expected, Soon());
      if (!got.ok() || got->tensor.f32()[0] != from * 1000 + unit) ++wrong;
    }
  }
  for (std::thread& sender : senders) sender.join();
  CHECK(wrong == 0);
  CHECK(inbox.PendingFrom(Seat(2)) == 0);
}

TEST_CASE(
    "inbox: an announced payload is asked for when the executor asks, "
    "and from then on what is no larger at once") {
  Inbox inbox("here");
  int asked = 0;
  const auto settle = [&](int64_t unit, int64_t elements) {
    return [&inbox, &asked, unit, elements](bool fetch) {
      REQUIRE(fetch);
      ++asked;
      inbox.Fulfil(With(Unit(unit), elements, 7));
    };
  };
  REQUIRE(inbox.Announce(About(Unit(0), 10), true, settle(0, 10)).ok());
  CHECK(asked == 0);
  const Transport::Expected ten{{10}, DType::kF32};
  CHECK(inbox.Receive(Unit(0), &ten, Soon()).ok());
  CHECK(asked == 1);
  REQUIRE(inbox.Announce(About(Unit(1), 10), true, settle(1, 10)).ok());
  REQUIRE(inbox.Announce(About(Unit(2), 3), true, settle(2, 3)).ok());
  CHECK(asked == 3);
  REQUIRE(inbox.Announce(About(Unit(3), 11), true, settle(3, 11)).ok());
  REQUIRE(inbox.Announce(About(Unit(4), 10), false, settle(4, 10)).ok());
  CHECK(asked == 3);
  const Transport::Expected eleven{{11}, DType::kF32};
  CHECK(inbox.Receive(Unit(3), &eleven, Soon()).ok());
  CHECK(asked == 4);
}

TEST_CASE("inbox: an announced payload of the wrong size is never asked for") {
  Inbox inbox("here");
  std::vector<bool> settled;
  REQUIRE(inbox
              .Announce(About(Unit(0), 10), true,
                        [&](bool fetch) { settled.push_back(fetch); })
              .ok());
  const Transport::Expected eleven{{11}, DType::kF32};
  const auto got = inbox.Receive(Unit(0), &eleven, Soon());
  CHECK(got.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(settled == std::vector<bool>{false});
  CHECK(inbox.refused() == 1);
}

TEST_CASE(
    "inbox: a text where a tensor is expected, and the other way round, "
    "is an error") {
  Inbox inbox("here");
  Message text;
  text.id = Unit(0);
  text.text = "stop";
  REQUIRE(inbox.Deliver(text).ok());
  const Transport::Expected one{{1}, DType::kF32};
  CHECK(inbox.Receive(Unit(0), &one, Soon()).status().code() ==
        absl::StatusCode::kInvalidArgument);
  REQUIRE(inbox.Deliver(With(Unit(1), 1)).ok());
  CHECK(inbox.Receive(Unit(1), nullptr, Soon()).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("inbox: a payload that fails on its way fails its receive") {
  Inbox inbox("here");
  REQUIRE(inbox
              .Announce(About(Unit(0), 1), true,
                        [&](bool) {
                          inbox.Fail(Unit(0), absl::DataLossError("torn"));
                        })
              .ok());
  const Transport::Expected one{{1}, DType::kF32};
  CHECK(inbox.Receive(Unit(0), &one, Soon()).status() ==
        absl::DataLossError("torn"));
}

TEST_CASE(
    "inbox: when a sender is gone, what is here stays and the rest ends") {
  Inbox inbox("here");
  const Transport::Expected one{{1}, DType::kF32};
  REQUIRE(inbox.Deliver(With(Unit(0), 1)).ok());
  REQUIRE(inbox
              .Announce(About(Unit(1), 1), false,
                        [&](bool) { inbox.Fulfil(With(Unit(1), 1)); })
              .ok());
  absl::Status waiting;
  std::thread waiter(
      [&] { waiting = inbox.Receive(Unit(2), &one, Soon()).status(); });
  inbox.SenderGone(Seat(0), absl::UnavailableError("peer x is gone"));
  waiter.join();
  CHECK(absl::IsUnavailable(waiting));
  CHECK(absl::StrContains(std::string(waiting.message()), "peer x is gone"));
  CHECK(inbox.Receive(Unit(0), &one, Soon()).ok());
  CHECK(inbox.Receive(Unit(1), &one, Soon()).ok());
  // Other senders go on.
  REQUIRE(inbox.Deliver(With(Unit(0, 2), 1)).ok());
  CHECK(inbox.Receive(Unit(0, 2), &one, Soon()).ok());
}

TEST_CASE("inbox: a repeated message is told among many thousands") {
  Inbox inbox("here");
  const Transport::Expected one{{1}, DType::kF32};
  REQUIRE(inbox.Deliver(With(Unit(0), 1)).ok());  // never received
  for (int unit = 1; unit < 40000; ++unit) {
    REQUIRE(inbox.Deliver(With(Unit(unit), 1)).ok());
    REQUIRE(inbox.Receive(Unit(unit), &one, Soon()).ok());
  }
  CHECK(absl::IsAlreadyExists(inbox.Deliver(With(Unit(39999), 1))));
  CHECK(absl::IsAlreadyExists(inbox.Deliver(With(Unit(30000), 1))));
  CHECK(absl::IsAlreadyExists(inbox.Deliver(With(Unit(0), 1))));
  CHECK(inbox.refused() == 3);
}

}  // namespace
}  // namespace pipework
