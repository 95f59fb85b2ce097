// One contract for every data plane. Executors are threads; over UCX each seat
// has a plane of its own, as if it were in a process of its own.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/transport/faulty.h"
#include "daemon/transport/transport.h"
#include "proto/check.h"

namespace pipework {
namespace {

SeatId Seat(int stage, int replica = 0) {
  return SeatId{StageId(stage), ReplicaId(replica)};
}

MessageId Forward(SeatId from, SeatId to, int64_t unit, int tensor = 0) {
  return MessageId{Channel::kForward, from, to, tensor, unit};
}

MessageId Backward(SeatId from, SeatId to, int64_t unit, int tensor = 0) {
  return MessageId{Channel::kBackward, from, to, tensor, unit};
}

std::shared_ptr<Allocator> Host() {
  static const auto allocator = MakeHostAllocator();
  return allocator;
}

// Element i is first + i.
Tensor Count(Shape shape, float first) {
  auto tensor =
      Tensor::Allocate(*Host(), shape, DType::kF32, MemoryUse::kActivations);
  PIPE_CHECK(tensor.ok());  // threads call this too
  for (int64_t i = 0; i < tensor->elements(); ++i) {
    tensor->f32()[i] = first + static_cast<float>(i);
  }
  return *std::move(tensor);
}

bool Same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

Message With(MessageId id, Tensor tensor) {
  Message message;
  message.id = id;
  message.tensor = std::move(tensor);
  return message;
}

absl::Time In(absl::Duration d) { return MonotonicNow() + d; }
absl::Time Soon() { return In(absl::Seconds(30)); }

DataPlaneOptions Options() {
  DataPlaneOptions options;
  options.job = "j-contract";
  options.attempt = 3;
  options.nonce = 0x1234567890abcdef;
  options.allocator = Host();
  return options;
}

// The planes of some seats.
class Cluster {
 public:
  Cluster(const std::string& kind, const std::vector<SeatId>& seats)
      : kind_(kind) {
    const bool ucx = absl::StartsWith(kind, "ucx");
    std::vector<DataPlane::Seat> all;
    for (const SeatId seat : seats) {
      if (ucx || planes_.empty()) planes_.push_back(Make());
      plane_of_[seat] = planes_.size() - 1;
      all.push_back({seat, planes_.back()->address()});
    }
    std::vector<absl::Status> connected(planes_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < planes_.size(); ++i) {
      threads.emplace_back(
          [&, i] { connected[i] = planes_[i]->Connect(all, Soon()); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : connected) {
      INFO(status.ToString());
      REQUIRE(status.ok());
    }
  }

  Transport& At(SeatId seat) { return plane(seat).endpoint(seat); }
  DataPlane& plane(SeatId seat) { return *planes_[plane_of_.at(seat)]; }
  void Destroy(SeatId seat) { planes_[plane_of_.at(seat)].reset(); }
  bool one_process() const { return planes_.size() == 1; }
  int64_t refused() const {
    int64_t refused = 0;
    for (const auto& plane : planes_) refused += plane->refused_messages();
    return refused;
  }

 private:
  std::unique_ptr<DataPlane> Make() {
    const std::vector<std::pair<std::string, Faults>> faulty = {
        {"faulty_delay", Delay()}, {"faulty_shuffle", Shuffle()}};
    for (const auto& [name, faults] : faulty) {
      if (kind_ != name) continue;
      auto inner = MakeDataPlane("in_process", Options());
      REQUIRE(inner.ok());
      return MakeFaultyPlane(*std::move(inner), faults);
    }
    auto plane =
        MakeDataPlane(kind_ == "ucx_shuffle" ? "ucx" : kind_, Options());
    INFO(plane.status().ToString());
    REQUIRE(plane.ok());
    if (kind_ == "ucx_shuffle") {
      return MakeFaultyPlane(*std::move(plane), Shuffle());
    }
    return *std::move(plane);
  }
  static Faults Delay() {
    Faults faults;
    faults.delay = absl::Milliseconds(3);
    return faults;
  }
  static Faults Shuffle() {
    Faults faults;
    faults.shuffle = 7;
    faults.seed = 42;
    return faults;
  }

  const std::string kind_;
  std::vector<std::unique_ptr<DataPlane>> planes_;
  std::map<SeatId, size_t> plane_of_;
};

const std::vector<std::string>& AllKinds() {
  static const std::vector<std::string> kinds = {
      "in_process",     "zero_buffer", "one_slot",   "faulty_delay",
      "faulty_shuffle", "ucx",         "ucx_shuffle"};
  return kinds;
}

// Those that say at once what is wrong with a Send.
const std::vector<std::string>& DirectKinds() {
  static const std::vector<std::string> kinds = {"in_process", "zero_buffer",
                                                 "one_slot", "ucx"};
  return kinds;
}

Transport::Expected Expect(Shape shape, DType dtype = DType::kF32) {
  return Transport::Expected{std::move(shape), dtype};
}

TEST_CASE("transport: a tensor comes with its bits, and its stop mark") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    const MessageId id = Forward(Seat(0), Seat(1), 7);
    Message message = With(id, Count({3, 5}, 100));
    message.stop_before = 12;
    REQUIRE(cluster.At(Seat(0)).Send(message).ok());
    const auto expected = Expect({3, 5});
    auto got = cluster.At(Seat(1)).Receive(id, &expected, Soon());
    REQUIRE(got.ok());
    CHECK(Same(got->tensor, Count({3, 5}, 100)));
    CHECK(got->stop_before == 12);
    CHECK(got->id == id);
  }
}

TEST_CASE("transport: messages are found by identity, in any order") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    for (int unit = 0; unit < 20; ++unit) {
      for (int tensor : {0, 1, 2}) {
        REQUIRE(cluster.At(Seat(0))
                    .Send(With(Forward(Seat(0), Seat(1), unit, tensor),
                               Count({4}, 100 * unit + 10 * tensor)))
                    .ok());
      }
    }
    const auto expected = Expect({4});
    for (int tensor : {2, 0, 1}) {
      for (int unit = 19; unit >= 0; --unit) {
        auto got = cluster.At(Seat(1)).Receive(
            Forward(Seat(0), Seat(1), unit, tensor), &expected, Soon());
        REQUIRE(got.ok());
        CHECK(Same(got->tensor, Count({4}, 100 * unit + 10 * tensor)));
      }
    }
  }
}

TEST_CASE(
    "transport: with two stages and two replicas, the neighbour before and the "
    "neighbour after are told apart") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    const std::vector<SeatId> seats = {Seat(0, 0), Seat(0, 1), Seat(1, 0),
                                       Seat(1, 1)};
    Cluster cluster(kind, seats);
    // Everyone to everyone, on both channels, with the same numbers.
    for (const SeatId from : seats) {
      for (const SeatId to : seats) {
        if (from == to) continue;
        const float base = 1000.0f * from.stage.value() +
                           100.0f * from.replica.value() +
                           10.0f * to.stage.value() + to.replica.value();
        for (int unit = 0; unit < 4; ++unit) {
          REQUIRE(cluster.At(from)
                      .Send(With(Forward(from, to, unit),
                                 Count({2}, base + 10000 * unit)))
                      .ok());
          REQUIRE(cluster.At(from)
                      .Send(With(Backward(from, to, unit),
                                 Count({2}, -base - 10000 * unit)))
                      .ok());
        }
      }
    }
    const auto expected = Expect({2});
    for (const SeatId to : seats) {
      for (const SeatId from : seats) {
        if (from == to) continue;
        const float base = 1000.0f * from.stage.value() +
                           100.0f * from.replica.value() +
                           10.0f * to.stage.value() + to.replica.value();
        for (int unit : {3, 1, 2, 0}) {
          auto back = cluster.At(to).Receive(Backward(from, to, unit),
                                             &expected, Soon());
          REQUIRE(back.ok());
          CHECK(Same(back->tensor, Count({2}, -base - 10000 * unit)));
          auto forward = cluster.At(to).Receive(Forward(from, to, unit),
                                                &expected, Soon());
          REQUIRE(forward.ok());
          CHECK(Same(forward->tensor, Count({2}, base + 10000 * unit)));
        }
      }
    }
  }
}

TEST_CASE("transport: both sides send 64 MiB before either receives") {
  for (const std::string& kind : DirectKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    const Shape shape({16, 1024, 1024});
    const Tensor up = Count(shape, 1), down = Count(shape, 2);
    const auto expected = Expect(shape);
    std::vector<std::thread> threads;
    bool good[2] = {false, false};
    for (int me : {0, 1}) {
      threads.emplace_back([&, me] {
        const MessageId out = me == 0 ? Forward(Seat(0), Seat(1), 0)
                                      : Backward(Seat(1), Seat(0), 0);
        const MessageId in = me == 0 ? Backward(Seat(1), Seat(0), 0)
                                     : Forward(Seat(0), Seat(1), 0);
        if (!cluster.At(Seat(me)).Send(With(out, me == 0 ? up : down)).ok()) {
          return;
        }
        auto got = cluster.At(Seat(me)).Receive(in, &expected, Soon());
        good[me] = got.ok() && Same(got->tensor, me == 0 ? down : up);
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(good[0]);
    CHECK(good[1]);
    CHECK(cluster.At(Seat(0)).bytes_sent() == 64 << 20);
  }
}

TEST_CASE(
    "transport: a thousand small messages each way, sizes around the "
    "borders of UCX's protocols") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    const auto size = [](int unit) {
      constexpr int64_t kSizes[] = {1, 2, 31, 1999, 2048, 8191, 16384};
      return kSizes[unit % 7];
    };
    std::vector<std::thread> threads;
    int wrong[2] = {0, 0};
    for (int me : {0, 1}) {
      threads.emplace_back([&, me] {
        Transport& here = cluster.At(Seat(me));
        const SeatId self = Seat(me), other = Seat(1 - me);
        for (int unit = 0; unit < 1000; ++unit) {
          if (!here.Send(With(Forward(self, other, unit),
                              Count({size(unit)}, unit)))
                   .ok()) {
            ++wrong[me];
          }
          if (unit < 8) continue;
          const auto expected = Expect({size(unit - 8)});
          auto got =
              here.Receive(Forward(other, self, unit - 8), &expected, Soon());
          if (!got.ok() ||
              !Same(got->tensor, Count({size(unit - 8)}, unit - 8))) {
            ++wrong[me];
          }
        }
        for (int unit = 992; unit < 1000; ++unit) {
          const auto expected = Expect({size(unit)});
          auto got =
              here.Receive(Forward(other, self, unit), &expected, Soon());
          if (!got.ok()) ++wrong[me];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong[0] == 0);
    CHECK(wrong[1] == 0);
    CHECK(cluster.refused() == 0);
  }
}

TEST_CASE("transport: the payload of a NaN, of an infinity and of -0 stays") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    const uint32_t bits[] = {0x7fc00001, 0xffc12345, 0x7f800001,
                             0x7f800000, 0x80000000, 0x00000001};
    Tensor tensor = Count({6}, 0);
    std::memcpy(tensor.raw(), bits, sizeof bits);
    const MessageId id = Forward(Seat(0), Seat(1), 0);
    REQUIRE(cluster.At(Seat(0)).Send(With(id, tensor)).ok());
    const auto expected = Expect({6});
    auto got = cluster.At(Seat(1)).Receive(id, &expected, Soon());
    REQUIRE(got.ok());
    CHECK(std::memcmp(got->tensor.raw(), bits, sizeof bits) == 0);
  }
}

TEST_CASE("transport: tensors without elements, and of integers") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    const MessageId none = Forward(Seat(0), Seat(1), 0);
    REQUIRE(cluster.At(Seat(0)).Send(With(none, Count({0, 4}, 0))).ok());
    auto labels =
        Tensor::Zeros(*Host(), {3}, DType::kI32, MemoryUse::kActivations);
    REQUIRE(labels.ok());
    labels->i32()[1] = -7;
    const MessageId whole = Forward(Seat(0), Seat(1), 0, 1);
    REQUIRE(cluster.At(Seat(0)).Send(With(whole, *labels)).ok());

    const auto expect_none = Expect({0, 4});
    auto got = cluster.At(Seat(1)).Receive(none, &expect_none, Soon());
    REQUIRE(got.ok());
    CHECK(got->tensor.shape() == Shape({0, 4}));
    const auto expect_whole = Expect({3}, DType::kI32);
    got = cluster.At(Seat(1)).Receive(whole, &expect_whole, Soon());
    REQUIRE(got.ok());
    CHECK(Same(got->tensor, *labels));
  }
}

TEST_CASE("transport: control messages carry text") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    for (int number : {0, 1}) {
      Message message;
      message.id = {Channel::kControl, Seat(0), Seat(1), 0, number};
      if (number == 0) message.text = std::string("a\0b", 3);
      REQUIRE(cluster.At(Seat(0)).Send(message).ok());
    }
    auto got = cluster.At(Seat(1)).Receive(
        {Channel::kControl, Seat(0), Seat(1), 0, 0}, nullptr, Soon());
    REQUIRE(got.ok());
    CHECK(got->text == std::string("a\0b", 3));
    got = cluster.At(Seat(1)).Receive(
        {Channel::kControl, Seat(0), Seat(1), 0, 1}, nullptr, Soon());
    REQUIRE(got.ok());
    CHECK(got->text.empty());
  }
}

TEST_CASE(
    "transport: a wait ends at its deadline, and says who waited for "
    "what from whom") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    const auto expected = Expect({1});
    const auto got = cluster.At(Seat(1)).Receive(
        Forward(Seat(0), Seat(1), 41), &expected, In(absl::Milliseconds(5)));
    REQUIRE(got.status().code() == absl::StatusCode::kDeadlineExceeded);
    const std::string text(got.status().message());
    CAPTURE(text);
    CHECK(absl::StrContains(text, "job j-contract attempt 3: s1.r0"));
    CHECK(absl::StrContains(text, "forward s0.r0 -> s1.r0 tensor 0 unit 41"));
    CHECK(absl::StrContains(text, "from s0.r0"));
    if (!cluster.one_process()) {
      CHECK(absl::StrContains(text, cluster.plane(Seat(0)).address()));
      CHECK(absl::StrContains(text, cluster.plane(Seat(1)).address()));
    }
    // The endpoint is as good as before.
    const MessageId id = Forward(Seat(0), Seat(1), 42);
    REQUIRE(cluster.At(Seat(0)).Send(With(id, Count({1}, 5))).ok());
    CHECK(cluster.At(Seat(1)).Receive(id, &expected, Soon()).ok());
  }
}

TEST_CASE("transport: Ready tells whether a message has come") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    const MessageId id = Forward(Seat(0), Seat(1), 0);
    CHECK_FALSE(cluster.At(Seat(1)).Ready(id));
    REQUIRE(cluster.At(Seat(0)).Send(With(id, Count({40000}, 0))).ok());
    const absl::Time limit = Soon();
    while (!cluster.At(Seat(1)).Ready(id) && MonotonicNow() < limit) {
      std::this_thread::yield();
    }
    CHECK(cluster.At(Seat(1)).Ready(id));
    const auto expected = Expect({40000});
    CHECK(cluster.At(Seat(1)).Receive(id, &expected, Soon()).ok());
    CHECK_FALSE(cluster.At(Seat(1)).Ready(id));
  }
}

TEST_CASE(
    "transport: another shape or type than expected is an error with "
    "both, and the next message is fine") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    // Once small, once as large as what is fetched on demand.
    for (const int64_t size : {4, 100000}) {
      const MessageId id = Forward(Seat(0), Seat(1), size);
      REQUIRE(cluster.At(Seat(0)).Send(With(id, Count({2, size}, 0))).ok());
      const auto expected = Expect({2, size + 1});
      const auto got = cluster.At(Seat(1)).Receive(id, &expected, Soon());
      REQUIRE(got.status().code() == absl::StatusCode::kInvalidArgument);
      const std::string text(got.status().message());
      CHECK(absl::StrContains(text, absl::StrCat("f32[2,", size, "]")));
      CHECK(absl::StrContains(text, absl::StrCat("f32[2,", size + 1, "]")));

      const MessageId next = Forward(Seat(0), Seat(1), size, 1);
      REQUIRE(cluster.At(Seat(0)).Send(With(next, Count({size}, 0))).ok());
      const auto integers = Expect({size}, DType::kI32);
      CHECK(cluster.At(Seat(1))
                .Receive(next, &integers, Soon())
                .status()
                .code() == absl::StatusCode::kInvalidArgument);
    }
    CHECK(cluster.refused() == 4);
    const MessageId id = Forward(Seat(0), Seat(1), 1);
    REQUIRE(cluster.At(Seat(0)).Send(With(id, Count({2}, 0))).ok());
    const auto expected = Expect({2});
    CHECK(cluster.At(Seat(1)).Receive(id, &expected, Soon()).ok());
  }
}

TEST_CASE(
    "transport: Abort ends a wait in another thread, and all later "
    "ones, with the first cause") {
  for (const std::string& kind : AllKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    absl::Status got;
    std::thread waiter([&] {
      const auto expected = Expect({1});
      got = cluster.At(Seat(1))
                .Receive(Forward(Seat(0), Seat(1), 0), &expected, Soon())
                .status();
    });
    cluster.plane(Seat(1)).Abort(absl::CancelledError("the job was cancelled"));
    cluster.plane(Seat(1)).Abort(absl::InternalError("a later cause"));
    waiter.join();
    CHECK(got == absl::CancelledError("the job was cancelled"));
    const auto expected = Expect({1});
    CHECK(cluster.At(Seat(1))
              .Receive(Forward(Seat(0), Seat(1), 1), &expected, Soon())
              .status() == got);
  }
}

TEST_CASE(
    "transport: a repeated message is refused and counted, and the "
    "first one stays") {
  for (const std::string& kind : DirectKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    const MessageId id = Forward(Seat(0), Seat(1), 0);
    REQUIRE(cluster.At(Seat(0)).Send(With(id, Count({2}, 1))).ok());
    const absl::Status again =
        cluster.At(Seat(0)).Send(With(id, Count({2}, 50)));
    if (cluster.one_process()) {
      CHECK(again.code() == absl::StatusCode::kAlreadyExists);
    }
    const auto expected = Expect({2});
    auto got = cluster.At(Seat(1)).Receive(id, &expected, Soon());
    REQUIRE(got.ok());
    CHECK(Same(got->tensor, Count({2}, 1)));
    // A copy that comes after the first was received is no message either.
    (void)cluster.At(Seat(0)).Send(With(id, Count({2}, 70)));
    const MessageId last = Forward(Seat(0), Seat(1), 1);
    REQUIRE(cluster.At(Seat(0)).Send(With(last, Count({2}, 1))).ok());
    REQUIRE(cluster.At(Seat(1)).Receive(last, &expected, Soon()).ok());
    CHECK_FALSE(cluster.At(Seat(1)).Ready(id));
    CHECK(cluster.refused() == 2);
  }
}

TEST_CASE(
    "transport: to a seat outside the placement, or from another seat "
    "than one's own, nothing is sent") {
  for (const std::string& kind : DirectKinds()) {
    CAPTURE(kind);
    Cluster cluster(kind, {Seat(0), Seat(1)});
    const absl::Status nowhere = cluster.At(Seat(0)).Send(
        With(Forward(Seat(0), Seat(5), 0), Count({1}, 0)));
    CHECK(nowhere.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(std::string(nowhere.message()), "s5.r0"));
    CHECK(cluster.At(Seat(0))
              .Send(With(Forward(Seat(1), Seat(0), 0), Count({1}, 0)))
              .code() == absl::StatusCode::kInvalidArgument);
    const auto expected = Expect({1});
    CHECK(cluster.At(Seat(0))
              .Receive(Forward(Seat(0), Seat(1), 0), &expected, Soon())
              .status()
              .code() == absl::StatusCode::kInvalidArgument);
    CHECK(cluster.At(Seat(0)).bytes_sent() == 0);
  }
}

TEST_CASE("faulty transport: a lost message ends the wait at its deadline") {
  Faults faults;
  faults.drop = 1;
  auto inner = MakeDataPlane("in_process", Options());
  REQUIRE(inner.ok());
  auto plane = MakeFaultyPlane(*std::move(inner), faults);
  REQUIRE(plane->Connect({{Seat(0), ""}, {Seat(1), ""}}, Soon()).ok());
  const MessageId id = Forward(Seat(0), Seat(1), 0);
  REQUIRE(plane->endpoint(Seat(0)).Send(With(id, Count({1}, 0))).ok());
  const auto expected = Expect({1});
  CHECK(plane->endpoint(Seat(1))
            .Receive(id, &expected, In(absl::Milliseconds(5)))
            .status()
            .code() == absl::StatusCode::kDeadlineExceeded);
}

TEST_CASE("faulty transport: repeated messages come once") {
  Faults faults;
  faults.repeat = 1;
  faults.shuffle = 5;
  auto inner = MakeDataPlane("in_process", Options());
  REQUIRE(inner.ok());
  auto plane = MakeFaultyPlane(*std::move(inner), faults);
  REQUIRE(plane->Connect({{Seat(0), ""}, {Seat(1), ""}}, Soon()).ok());
  const auto expected = Expect({1});
  for (int unit = 0; unit < 20; ++unit) {
    REQUIRE(plane->endpoint(Seat(0))
                .Send(With(Forward(Seat(0), Seat(1), unit), Count({1}, unit)))
                .ok());
  }
  for (int unit = 0; unit < 20; ++unit) {
    auto got = plane->endpoint(Seat(1)).Receive(Forward(Seat(0), Seat(1), unit),
                                                &expected, Soon());
    REQUIRE(got.ok());
    CHECK(got->tensor.f32()[0] == static_cast<float>(unit));
  }
  const absl::Time limit = Soon();
  while (plane->refused_messages() < 20 && MonotonicNow() < limit) {
    std::this_thread::yield();
  }
  CHECK(plane->refused_messages() == 20);
}

TEST_CASE("transport: an unknown data plane names the known ones") {
  const auto plane = MakeDataPlane("carrier_pigeon", Options());
  REQUIRE(plane.status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(std::string(plane.status().message()),
                          "in_process, ucx"));
}

}  // namespace
}  // namespace pipework
