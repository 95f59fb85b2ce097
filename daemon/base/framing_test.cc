#include "daemon/base/framing.h"

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"
#include "proto/metrics.pb.h"

namespace pipework {
namespace {

absl::Time Soon() { return MonotonicNow() + absl::Seconds(30); }
absl::Time Now() { return MonotonicNow() + absl::Milliseconds(1); }

struct Pair {
  Pair() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    raw = ends[1];
    a = std::make_unique<FrameChannel>(UniqueFd(ends[0]), "a");
  }
  FrameChannel& b() {
    if (b_ == nullptr) b_ = std::make_unique<FrameChannel>(UniqueFd(raw), "b");
    return *b_;
  }
  std::unique_ptr<FrameChannel> a;
  int raw = -1;
  std::unique_ptr<FrameChannel> b_;
};

v1::StageMetrics Metrics(const std::string& device) {
  v1::StageMetrics metrics;
  metrics.set_device(device);
  return metrics;
}

TEST_CASE("framing: messages come in order, empty and large ones too") {
  Pair pair;
  const std::string large(10 << 20, 'x');
  std::thread sender([&] {
    for (const std::string& text : {std::string(), std::string("b"), large}) {
      (void)pair.a->Send(Metrics(text), Soon());
    }
  });
  for (const std::string& text : {std::string(), std::string("b"), large}) {
    v1::StageMetrics got;
    REQUIRE(pair.b().Receive(&got, Soon()).ok());
    CHECK(got.device() == text);
  }
  sender.join();
}

TEST_CASE("framing: many threads send, no message is torn") {
  Pair pair;
  std::vector<std::thread> senders;
  for (int t = 0; t < 4; ++t) {
    senders.emplace_back([&pair, t] {
      for (int i = 0; i < 100; ++i) {
        (void)pair.a->Send(Metrics(std::string(1000 + t, 'a' + t)), Soon());
      }
    });
  }
  int whole = 0;
  for (int i = 0; i < 400; ++i) {
    v1::StageMetrics got;
    if (!pair.b().Receive(&got, Soon()).ok()) break;
    const std::string& text = got.device();
    whole += text == std::string(1000 + text[0] - 'a', text[0]);
  }
  for (std::thread& sender : senders) sender.join();
  CHECK(whole == 400);
}

TEST_CASE(
    "framing: an end between messages and an end within one are told "
    "apart") {
  {
    Pair pair;
    REQUIRE(pair.a->Send(Metrics("x"), Soon()).ok());
    pair.a.reset();
    v1::StageMetrics got;
    CHECK(pair.b().Receive(&got, Soon()).ok());
    CHECK(absl::IsOutOfRange(pair.b().Receive(&got, Soon())));
    CHECK(absl::IsUnavailable(pair.b().Send(got, Soon())));
  }
  for (const std::string& part : {std::string("\5"), std::string("\5\0\0\0", 4),
                                  std::string("\5\0\0\0abc", 7)}) {
    Pair pair;
    REQUIRE(::write(pair.raw, part.data(), part.size()) ==
            static_cast<ssize_t>(part.size()));
    ::close(pair.raw);
    pair.raw = -1;
    v1::StageMetrics got;
    CHECK(absl::IsDataLoss(pair.a->Receive(&got, Soon())));
  }
}

TEST_CASE("framing: a deadline in the middle of a message loses nothing") {
  Pair pair;
  v1::StageMetrics sent = Metrics("hello");
  std::string bytes(4, '\0');
  bytes[0] = static_cast<char>(sent.ByteSizeLong());
  sent.AppendToString(&bytes);
  v1::StageMetrics got;
  for (const char byte : bytes) {
    CHECK(absl::IsDeadlineExceeded(pair.a->Receive(&got, Now())));
    REQUIRE(::write(pair.raw, &byte, 1) == 1);
  }
  REQUIRE(pair.a->Receive(&got, Soon()).ok());
  CHECK(got.device() == "hello");
}

TEST_CASE(
    "framing: what is no message, or too long a one, is an error that "
    "says so") {
  Pair pair;
  REQUIRE(::write(pair.raw, "\2\0\0\0\xff\xff", 6) == 6);
  v1::StageMetrics got;
  CHECK(absl::IsDataLoss(pair.a->Receive(&got, Soon())));
  Pair other;
  REQUIRE(::write(other.raw, "\1\0\0\4", 4) == 4);
  const absl::Status status = other.a->Receive(&got, Soon());
  CHECK(absl::IsDataLoss(status));
  CHECK(std::string(status.message()) ==
        "a: the length of a message is 67108865 bytes, expected at most "
        "67108864 bytes");
  CHECK(absl::IsInvalidArgument(
      other.a->Send(Metrics(std::string(65 << 20, 'x')), Soon())));
}

TEST_CASE(
    "framing: a send to one who does not read ends at its deadline, and "
    "the channel is broken") {
  Pair pair;
  const absl::Status status =
      pair.a->Send(Metrics(std::string(10 << 20, 'x')), Now());
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK(absl::IsUnavailable(pair.a->Send(Metrics("y"), Soon())));
}

TEST_CASE("framing: Shutdown ends a Receive in another thread") {
  Pair pair;
  absl::Status status;
  std::thread receiver([&] {
    v1::StageMetrics got;
    status = pair.a->Receive(&got, Soon());
  });
  pair.a->Shutdown();
  receiver.join();
  CHECK(absl::IsOutOfRange(status));
}

}  // namespace
}  // namespace pipework
