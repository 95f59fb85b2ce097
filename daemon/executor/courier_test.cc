#include "daemon/executor/courier.h"

#include <catch2/catch.hpp>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/executor/reason.h"

namespace pipework {
namespace {

const SeatId kLeader{StageId(0), ReplicaId(0)};
const SeatId kMiddle{StageId(1), ReplicaId(0)};
const SeatId kLast{StageId(2), ReplicaId(0)};

// Three seats in one process.
struct Three {
  explicit Three(absl::Duration timeout = absl::Seconds(20))
      : leader({"job j: stage 0", kLeader, kLeader, timeout, timeout}),
        middle({"job j: stage 1", kMiddle, kLeader, timeout, timeout}),
        last({"job j: stage 2", kLast, kLeader, timeout, timeout}) {
    DataPlaneOptions options;
    options.job = "j";
    options.allocator = allocator = MakeHostAllocator();
    auto made = MakeDataPlane("in_process", options);
    REQUIRE(made.ok());
    plane = *std::move(made);
    REQUIRE(plane
                ->Connect({{kLeader, ""}, {kMiddle, ""}, {kLast, ""}},
                          MonotonicNow() + absl::Seconds(5))
                .ok());
    leader.Attach(&plane->endpoint(kLeader));
    middle.Attach(&plane->endpoint(kMiddle));
    last.Attach(&plane->endpoint(kLast));
  }

  Tensor Numbers(int64_t elements) {
    auto tensor = Tensor::Zeros(*allocator, Shape{elements}, DType::kF32,
                                MemoryUse::kActivations);
    REQUIRE(tensor.ok());
    return *std::move(tensor);
  }
  static Courier::Wanted Forward(SeatId from, int64_t unit) {
    Courier::Wanted wanted;
    wanted.from = from;
    wanted.number = unit;
    wanted.unit = unit;
    wanted.minibatch = unit;
    return wanted;
  }

  std::shared_ptr<Allocator> allocator;
  std::unique_ptr<DataPlane> plane;
  Courier leader;
  Courier middle;
  Courier last;
};

}  // namespace

TEST_CASE("courier: a stop travels with whatever is sent, smallest first") {
  Three three;
  three.leader.StopBefore(12);
  REQUIRE(three.leader.Send(Channel::kForward, kMiddle, 0, 3, three.Numbers(2))
              .ok());
  CHECK(three.middle.stop_before() == kNoStop);
  REQUIRE(
      three.middle.Receive(Three::Forward(kLeader, 3), Shape{2}, DType::kF32)
          .ok());
  CHECK(three.middle.stop_before() == 12);
  three.middle.StopBefore(40);
  CHECK(three.middle.stop_before() == 12);
  REQUIRE(
      three.middle.Send(Channel::kForward, kLast, 0, 3, three.Numbers(2)).ok());
  REQUIRE(three.last.Receive(Three::Forward(kMiddle, 3), Shape{2}, DType::kF32)
              .ok());
  CHECK(three.last.stop_before() == 12);
}

TEST_CASE("courier: a wait for a unit that is not run is given up") {
  Three three;
  three.last.StopBefore(5);
  CHECK(absl::IsCancelled(
      three.last.Receive(Three::Forward(kMiddle, 5), Shape{2}, DType::kF32)
          .status()));
  // Also when the stop comes from the leader while it waits.
  Three other;
  absl::Status status;
  std::thread waiting([&other, &status] {
    status =
        other.last.Receive(Three::Forward(kMiddle, 7), Shape{2}, DType::kF32)
            .status();
  });
  other.leader.StopBefore(7);
  const absl::Status sent = other.leader.SendControl(kLast, "stop");
  waiting.join();
  CHECK(sent.ok());
  CHECK(absl::IsCancelled(status));
}

TEST_CASE("courier: a stop ends no wait that does not depend on a unit") {
  Three three;
  three.last.StopBefore(0);
  REQUIRE(three.leader.SendControl(kLast, "segment").ok());
  const auto text = three.last.ReceiveControl(kLeader);
  REQUIRE(text.ok());
  CHECK(*text == "segment");
}

TEST_CASE("courier: control messages come in order for each sender") {
  Three three;
  for (const char* text : {"one", "two"}) {
    REQUIRE(three.middle.SendControl(kLeader, text).ok());
  }
  REQUIRE(three.last.SendControl(kLeader, "other").ok());
  CHECK(three.leader.ControlReady(kMiddle));
  CHECK(*three.leader.ReceiveControl(kMiddle) == "one");
  CHECK(*three.leader.ReceiveControl(kLast) == "other");
  CHECK(*three.leader.ReceiveControl(kMiddle) == "two");
  CHECK_FALSE(three.leader.ControlReady(kMiddle));
}

TEST_CASE("courier: a late peer's error names both ends, unit and minibatch") {
  Three three(absl::Milliseconds(50));
  const absl::Status status =
      three.last.Receive(Three::Forward(kMiddle, 41), Shape{2}, DType::kF32)
          .status();
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK(ReasonOf(status) == "PEER_TIMEOUT");
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("job j: stage 2") && Catch::Contains("s1.r0") &&
                 Catch::Contains("s2.r0") && Catch::Contains("41") &&
                 Catch::Contains("of minibatch 41"));
}

TEST_CASE("courier: an abort ends a wait at once, as a peer's end") {
  Three three;
  absl::Status status;
  std::thread waiting([&three, &status] {
    status =
        three.last.Receive(Three::Forward(kMiddle, 1), Shape{2}, DType::kF32)
            .status();
  });
  while (three.last.waiting_for().empty()) std::this_thread::yield();
  const std::string waits = three.last.waiting_for();
  three.plane->Abort(absl::UnavailableError("it burns"));
  waiting.join();
  CHECK_THAT(waits, Catch::Contains("s1.r0"));
  CHECK(IsCausedByPeer(status));
  CHECK(ReasonOf(status) == "PEER_LOST");
  CHECK_THAT(std::string(status.message()), Catch::Contains("it burns"));
  CHECK(three.last.waiting_for() == "");
}

TEST_CASE("courier: a tensor of another shape or type is refused") {
  Three three;
  REQUIRE(three.leader.Send(Channel::kForward, kMiddle, 0, 3, three.Numbers(2))
              .ok());
  const absl::Status status =
      three.middle.Receive(Three::Forward(kLeader, 3), Shape{3}, DType::kF32)
          .status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("[3]"));
}

}  // namespace pipework
