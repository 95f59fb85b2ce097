// What is special about the plane between processes: strangers, peers that go,
// deadlines of connecting. transport_contract_test has the rest.
#include "daemon/transport/ucx.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "daemon/base/framing.h"
#include "daemon/base/subprocess.h"
#include "daemon/transport/handshake.h"
#include "daemon/transport/socket.h"
#include "proto/metrics.pb.h"

namespace pipework {
namespace {

SeatId Seat(int stage) { return SeatId{StageId(stage), ReplicaId(0)}; }
MessageId Forward(int from, int to, int64_t unit) {
  return MessageId{Channel::kForward, Seat(from), Seat(to), 0, unit};
}
absl::Time In(absl::Duration d) { return MonotonicNow() + d; }
absl::Time Soon() { return In(absl::Seconds(30)); }

DataPlaneOptions Options() {
  DataPlaneOptions options;
  options.job = "j-ucx";
  options.attempt = 2;
  options.nonce = 77;
  options.allocator = MakeHostAllocator();
  return options;
}

std::unique_ptr<DataPlane> Plane(const DataPlaneOptions& options = Options()) {
  auto plane = MakeUcxPlane(options);
  INFO(plane.status().ToString());
  REQUIRE(plane.ok());
  return *std::move(plane);
}

// Stage i is on plane i. The status of each Connect.
std::vector<absl::Status> ConnectAll(const std::vector<DataPlane*>& planes,
                                     absl::Time deadline) {
  std::vector<DataPlane::Seat> seats;
  for (size_t i = 0; i < planes.size(); ++i) {
    seats.push_back({Seat(static_cast<int>(i)), planes[i]->address()});
  }
  std::vector<absl::Status> out(planes.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < planes.size(); ++i) {
    threads.emplace_back(
        [&, i] { out[i] = planes[i]->Connect(seats, deadline); });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

Message Ramp(MessageId id, int64_t elements) {
  static const auto allocator = MakeHostAllocator();
  Message message;
  message.id = id;
  message.tensor = *Tensor::Allocate(*allocator, {elements}, DType::kF32,
                                     MemoryUse::kActivations);
  for (int64_t i = 0; i < elements; ++i) {
    message.tensor.f32()[i] = static_cast<float>(i);
  }
  return message;
}

// Sends a tensor over and back; false when anything is wrong.
bool Talk(DataPlane& a, DataPlane& b, int64_t unit) {
  const Transport::Expected expected{{5000}, DType::kF32};
  if (!a.endpoint(Seat(0)).Send(Ramp(Forward(0, 1, unit), 5000)).ok() ||
      !b.endpoint(Seat(1)).Send(Ramp(Forward(1, 0, unit), 5000)).ok()) {
    return false;
  }
  const auto one =
      b.endpoint(Seat(1)).Receive(Forward(0, 1, unit), &expected, Soon());
  const auto two =
      a.endpoint(Seat(0)).Receive(Forward(1, 0, unit), &expected, Soon());
  return one.ok() && two.ok() && one->tensor.f32()[4999] == 4999 &&
         two->tensor.f32()[4999] == 4999;
}

void WaitForRefused(DataPlane& plane, int64_t count) {
  const absl::Time limit = Soon();
  while (plane.refused_messages() < count && MonotonicNow() < limit) {
    std::this_thread::yield();
  }
  REQUIRE(plane.refused_messages() == count);
}

Hello RightHello(const std::string& address) {
  Hello hello;
  hello.job = "j-ucx";
  hello.attempt = 2;
  hello.nonce = 77;
  hello.address = address;
  hello.worker_address = "no worker";
  return hello;
}

TEST_CASE(
    "ucx: a hello of another job, attempt or nonce, or from an address "
    "outside the placement, is refused and counted, and the right peer "
    "goes on") {
  auto a = Plane(), b = Plane();
  for (const absl::Status& status : ConnectAll({a.get(), b.get()}, Soon())) {
    REQUIRE(status.ok());
  }
  struct Case {
    const char* what;
    Hello hello;
    const char* text;
  };
  std::vector<Case> cases;
  cases.push_back(
      {"job", RightHello("127.0.0.1:1"), "the job of its hello is"});
  cases.back().hello.job = "j-other";
  cases.push_back({"attempt", RightHello("127.0.0.1:1"), "is 1, expected 2"});
  cases.back().hello.attempt = 1;
  cases.push_back(
      {"nonce", RightHello("127.0.0.1:1"), "the nonce of its hello"});
  cases.back().hello.nonce = 78;
  cases.push_back({"address", RightHello("127.0.0.1:1"),
                   "127.0.0.1:1 is not in the placement"});
  // The higher address waits to be dialled, and is connected already.
  const bool a_is_lower = a->address() < b->address();
  cases.push_back(
      {"peer", RightHello(b->address()),
       a_is_lower ? "shall wait to be dialled" : "is connected already"});
  int64_t refused = 0;
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const auto dialled = DialAndGreet(a->address(), c.hello, Soon());
    REQUIRE(dialled.status().code() == absl::StatusCode::kPermissionDenied);
    CHECK(absl::StrContains(std::string(dialled.status().message()), c.text));
    CHECK_FALSE(
        absl::StrContains(std::string(dialled.status().message()), "77"));
    WaitForRefused(*a, ++refused);
    CHECK(Talk(*a, *b, refused));
  }
  CHECK(b->refused_messages() == 0);
}

// Every port that this process listens on, UCX's own included.
std::vector<int> ListeningPorts() {
  std::vector<std::string> inodes;
  for (int fd = 0; fd < 1024; ++fd) {
    char target[64];
    const ssize_t n =
        ::readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), target, 63);
    if (n > 8 && absl::StartsWith(absl::string_view(target, n), "socket:[")) {
      inodes.emplace_back(target + 8, n - 9);
    }
  }
  std::vector<int> ports;
  std::ifstream table("/proc/self/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string slot, local, remote, state, skip, inode;
    words >> slot >> local >> remote >> state >> skip >> skip >> skip >> skip >>
        skip >> inode;
    if (state != "0A" ||
        std::find(inodes.begin(), inodes.end(), inode) == inodes.end()) {
      continue;
    }
    const std::vector<std::string> parts = absl::StrSplit(local, ':');
    ports.push_back(static_cast<int>(std::stol(parts[1], nullptr, 16)));
  }
  return ports;
}

TEST_CASE(
    "ucx: strangers with garbage, with nothing, and with half a hello "
    "disturb nobody") {
  auto a = Plane(), b = Plane();
  for (const absl::Status& status : ConnectAll({a.get(), b.get()}, Soon())) {
    REQUIRE(status.ok());
  }
  const std::string half = EncodeHello(RightHello("127.0.0.1:1")).substr(0, 30);
  const std::string huge =
      std::string(kGreetingMagic) + "H" + std::string(4, '\xff');
  std::vector<UniqueFd> held;
  int64_t refused = 0, unit = 0;
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1 << 16, '\0'), huge,
        EncodeGoodbye(3), std::string(), half}) {
    auto socket = Dial(a->address(), Soon());
    REQUIRE(socket.ok());
    ::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (bytes.empty() || bytes == half) {
      held.push_back(*std::move(socket));  // is in nobody's way
    } else {
      WaitForRefused(*a, ++refused);
      char byte;
      pollfd entry = {socket->get(), POLLIN, 0};
      ::poll(&entry, 1, 30000);
      // The connection was closed, or reset because of unread bytes.
      CHECK(::recv(socket->get(), &byte, 1, 0) <= 0);
    }
    CHECK(Talk(*a, *b, unit++));
  }
  held.clear();
  WaitForRefused(*a, refused + 2);  // both went without a hello

  // UCX's own ports are open too.
  const std::vector<int> ports = ListeningPorts();
  CHECK(ports.size() >= 4);
  for (const int port : ports) {
    for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"),
                                     std::string(1 << 16, '\xee')}) {
      auto socket = Dial(absl::StrCat("127.0.0.1:", port), Soon());
      REQUIRE(socket.ok());
      ::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      CHECK(Talk(*a, *b, unit++));
    }
    CHECK(Talk(*a, *b, unit++));
  }
}

TEST_CASE(
    "ucx: planes that do not agree on the nonce do not connect, and "
    "say why") {
  DataPlaneOptions other = Options();
  other.nonce = 78;
  auto a = Plane(), b = Plane(other);
  const auto connected =
      ConnectAll({a.get(), b.get()}, In(absl::Milliseconds(300)));
  const bool a_dials = a->address() < b->address();
  const absl::Status dialler = connected[a_dials ? 0 : 1];
  const absl::Status waiter = connected[a_dials ? 1 : 0];
  CHECK(dialler.code() == absl::StatusCode::kPermissionDenied);
  CHECK(absl::StrContains(std::string(dialler.message()), "it refused"));
  CHECK(absl::StrContains(
      std::string(dialler.message()),
      absl::StrCat(a_dials ? a->address() : b->address(), " dialled ",
                   a_dials ? b->address() : a->address())));
  CHECK(waiter.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(absl::StrContains(std::string(waiter.message()),
                          "waited to be dialled by"));
  CHECK(a->refused_messages() + b->refused_messages() == 1);
}

TEST_CASE(
    "ucx: connecting to nobody ends at the deadline and names both ends") {
  auto a = Plane();
  // Higher than any address of 127.0.0.1, so that `a` dials it.
  const absl::Status status =
      a->Connect({{Seat(0), a->address()}, {Seat(1), "127.0.0.9:1"}},
                 In(absl::Milliseconds(50)));
  REQUIRE(status.code() == absl::StatusCode::kDeadlineExceeded);
  const std::string text(status.message());
  CAPTURE(text);
  CHECK(absl::StrContains(text, absl::StrCat("runner at ", a->address(),
                                             " dialled 127.0.0.9:1 (s1.r0)")));
  CHECK(absl::StrContains(text, "Connection refused"));
  CHECK(absl::StrContains(text, "job j-ucx attempt 2"));
}

TEST_CASE("ucx: a peer that starts later is dialled until it is there") {
  DataPlaneOptions late = Options();
  {
    auto reserved = Listen("127.0.0.2", 0, 0);
    REQUIRE(reserved.ok());
    late.port_first = reserved->port;
    late.port_last = reserved->port + 20;
  }
  late.listen_host = "127.0.0.2";  // higher: `a` dials
  auto a = Plane();
  const std::vector<DataPlane::Seat> seats = {
      {Seat(0), a->address()},
      {Seat(1), JoinHostPort("127.0.0.2", late.port_first)}};
  auto early =
      std::async(std::launch::async, [&] { return a->Connect(seats, Soon()); });
  auto b = Plane(late);
  REQUIRE(b->address() == seats[1].address);
  CHECK(b->Connect(seats, Soon()).ok());
  CHECK(early.get().ok());
  CHECK(Talk(*a, *b, 0));
}

TEST_CASE("ucx: Abort ends a Connect") {
  auto a = Plane();
  const absl::Status cause = absl::CancelledError("asked to stop");
  auto connecting = std::async(std::launch::async, [&] {
    return a->Connect({{Seat(0), a->address()}, {Seat(1), "127.0.0.9:1"}},
                      Soon());
  });
  a->Abort(cause);
  CHECK(connecting.get() == cause);
}

TEST_CASE(
    "ucx: what was sent before a peer left comes whole, then waits for "
    "it end") {
  auto a = Plane(), b = Plane();
  for (const absl::Status& status : ConnectAll({a.get(), b.get()}, Soon())) {
    REQUIRE(status.ok());
  }
  bool lost = false;
  b->OnPeerLost([&](const absl::Status&) { lost = true; });
  // Small ones are on their way at once; the large one stays with its sender
  // until it is received.
  for (int unit = 0; unit < 50; ++unit) {
    REQUIRE(a->endpoint(Seat(0)).Send(Ramp(Forward(0, 1, unit), 100)).ok());
  }
  REQUIRE(a->endpoint(Seat(0)).Send(Ramp(Forward(0, 1, 50), 1 << 20)).ok());
  const std::string address = a->address();
  auto leaving = std::async(std::launch::async, [&] { a.reset(); });
  const Transport::Expected large{{1 << 20}, DType::kF32};
  auto got = b->endpoint(Seat(1)).Receive(Forward(0, 1, 50), &large, Soon());
  REQUIRE(got.ok());
  CHECK(got->tensor.f32()[(1 << 20) - 1] == (1 << 20) - 1);
  leaving.get();
  const Transport::Expected small{{100}, DType::kF32};
  for (int unit = 0; unit < 50; ++unit) {
    CHECK(
        b->endpoint(Seat(1)).Receive(Forward(0, 1, unit), &small, Soon()).ok());
  }
  const auto none =
      b->endpoint(Seat(1)).Receive(Forward(0, 1, 51), &small, Soon());
  REQUIRE(none.status().code() == absl::StatusCode::kUnavailable);
  const std::string text(none.status().message());
  CHECK(absl::StrContains(text, absl::StrCat("peer ", address, " (s0.r0)")));
  CHECK(absl::StrContains(text, "has left"));
  CHECK(b->endpoint(Seat(1)).Send(Ramp(Forward(1, 0, 0), 1)).code() ==
        absl::StatusCode::kUnavailable);
  CHECK_FALSE(lost);
}

TEST_CASE("ucx: a payload over the allocator's limit fails its receive only") {
  DataPlaneOptions small = Options();
  small.allocator = MakeHostAllocator(/*limit_bytes=*/100000);
  auto a = Plane(), b = Plane(small);
  for (const absl::Status& status : ConnectAll({a.get(), b.get()}, Soon())) {
    REQUIRE(status.ok());
  }
  REQUIRE(a->endpoint(Seat(0)).Send(Ramp(Forward(0, 1, 0), 1 << 20)).ok());
  const Transport::Expected large{{1 << 20}, DType::kF32};
  const auto got =
      b->endpoint(Seat(1)).Receive(Forward(0, 1, 0), &large, Soon());
  REQUIRE(got.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(absl::StrContains(std::string(got.status().message()),
                          "forward s0.r0 -> s1.r0 tensor 0 unit 0"));
  CHECK(Talk(*a, *b, 1));
}

TEST_CASE(
    "ucx: nothing is allocated for a payload before its size is known "
    "to be right") {
  auto a = Plane();
  DataPlaneOptions options = Options();
  auto b = Plane(options);
  for (const absl::Status& status : ConnectAll({a.get(), b.get()}, Soon())) {
    REQUIRE(status.ok());
  }
  REQUIRE(a->endpoint(Seat(0)).Send(Ramp(Forward(0, 1, 0), 1 << 22)).ok());
  const Transport::Expected other{{1 << 20}, DType::kF32};
  CHECK(b->endpoint(Seat(1))
            .Receive(Forward(0, 1, 0), &other, Soon())
            .status()
            .code() == absl::StatusCode::kInvalidArgument);
  CHECK(options.allocator->peak_bytes(MemoryUse::kMessages) == 0);
  CHECK(Talk(*a, *b, 1));
}

TEST_CASE("ucx: three planes over IPv6, two stages on one of them") {
  DataPlaneOptions six = Options();
  six.listen_host = "::1";
  auto probe = MakeUcxPlane(six);
  if (!probe.ok()) {
    WARN("no IPv6 loopback here: " << probe.status().ToString());
    return;
  }
  auto a = Plane(six), b = Plane(six);
  CHECK(absl::StartsWith(a->address(), "[::1]:"));
  const std::vector<DataPlane::Seat> seats = {{Seat(0), a->address()},
                                              {Seat(1), b->address()},
                                              {Seat(2), b->address()}};
  auto first =
      std::async(std::launch::async, [&] { return a->Connect(seats, Soon()); });
  REQUIRE(b->Connect(seats, Soon()).ok());
  REQUIRE(first.get().ok());
  CHECK(Talk(*a, *b, 0));
  const Transport::Expected expected{{3}, DType::kF32};
  Message message = Ramp(Forward(1, 2, 0), 3);
  const void* buffer = message.tensor.identity();
  REQUIRE(b->endpoint(Seat(1)).Send(std::move(message)).ok());
  auto got = b->endpoint(Seat(2)).Receive(Forward(1, 2, 0), &expected, Soon());
  REQUIRE(got.ok());
  CHECK(got->tensor.identity() == buffer);  // handed over, not copied
}

TEST_CASE("ucx: every port is in the range of ports") {
  DataPlaneOptions options = Options();
  auto start = Listen("127.0.0.1", 0, 0);
  REQUIRE(start.ok());
  options.port_first = start->port;  // taken: the next ones are used
  options.port_last = start->port + 30;
  auto a = Plane(options), b = Plane(options);
  for (const absl::Status& status : ConnectAll({a.get(), b.get()}, Soon())) {
    REQUIRE(status.ok());
  }
  CHECK(Talk(*a, *b, 0));
  const std::vector<int> ports = ListeningPorts();
  CHECK(ports.size() >= 5);
  for (const int port : ports) {
    CHECK(port >= options.port_first);
    CHECK(port <= options.port_last);
  }
}

TEST_CASE(
    "ucx: one port is too few, and a range without a free one is an "
    "error") {
  auto first = Listen("127.0.0.1", 0, 0);
  REQUIRE(first.ok());
  DataPlaneOptions options = Options();
  options.port_first = options.port_last = first->port;
  CHECK(MakeUcxPlane(options).status().code() ==
        absl::StatusCode::kInvalidArgument);
  auto second = Listen("127.0.0.1", first->port + 1, first->port + 1);
  if (!second.ok()) return;  // someone else has it
  options.port_last = second->port;
  const auto plane = MakeUcxPlane(options);
  REQUIRE(plane.status().code() == absl::StatusCode::kUnavailable);
  CHECK(absl::StrContains(
      std::string(plane.status().message()),
      absl::StrCat("ports ", first->port, " to ", second->port)));
}

TEST_CASE("ucx: a wildcard host needs a host to advertise") {
  DataPlaneOptions options = Options();
  options.listen_host = "0.0.0.0";
  CHECK(MakeUcxPlane(options).status().code() ==
        absl::StatusCode::kInvalidArgument);
  options.advertise_host = "127.0.0.1";
  auto a = Plane(options), b = Plane(options);
  for (const absl::Status& status : ConnectAll({a.get(), b.get()}, Soon())) {
    REQUIRE(status.ok());
  }
  CHECK(Talk(*a, *b, 0));
}

// The other process of the test below.
TEST_CASE("a peer in a process of its own", "[.peer]") {
  FrameChannel channel(UniqueFd(std::atoi(std::getenv("PEER_FD"))), "peer");
  auto plane = Plane();
  v1::StageMetrics hello;
  hello.set_device(plane->address());
  REQUIRE(channel.Send(hello, Soon()).ok());
  REQUIRE(channel.Receive(&hello, Soon()).ok());
  REQUIRE(
      plane
          ->Connect({{Seat(0), hello.device()}, {Seat(1), plane->address()}},
                    Soon())
          .ok());
  const Transport::Expected expected{{5000}, DType::kF32};
  REQUIRE(plane->endpoint(Seat(1))
              .Receive(Forward(0, 1, 0), &expected, Soon())
              .ok());
  REQUIRE(plane->endpoint(Seat(1)).Send(Ramp(Forward(1, 0, 0), 5000)).ok());
  (void)channel.Receive(&hello, Soon());  // until it is killed
}

TEST_CASE("ucx: a killed peer ends every wait at once and is named") {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
  REQUIRE(n > 0);
  Subprocess::Options options;
  options.program = std::string(self, n);
  options.args = {"[.peer]"};
  options.channel_variable = "PEER_FD";
  auto peer = Subprocess::Spawn(options);
  INFO(peer.status().ToString());
  REQUIRE(peer.ok());
  FrameChannel channel((*peer)->TakeChannel(), "test");
  v1::StageMetrics hello;
  REQUIRE(channel.Receive(&hello, Soon()).ok());
  const std::string address = hello.device();
  auto plane = Plane();
  hello.set_device(plane->address());
  REQUIRE(channel.Send(hello, Soon()).ok());
  REQUIRE(
      plane->Connect({{Seat(0), plane->address()}, {Seat(1), address}}, Soon())
          .ok());
  std::promise<absl::Status> lost;
  plane->OnPeerLost([&](const absl::Status& cause) { lost.set_value(cause); });
  REQUIRE(plane->endpoint(Seat(0)).Send(Ramp(Forward(0, 1, 0), 5000)).ok());
  const Transport::Expected expected{{5000}, DType::kF32};
  REQUIRE(plane->endpoint(Seat(0))
              .Receive(Forward(1, 0, 0), &expected, Soon())
              .ok());
  // This one stays with us: the peer does not ask for it.
  REQUIRE(plane->endpoint(Seat(0)).Send(Ramp(Forward(0, 1, 1), 1 << 20)).ok());

  auto waiting = std::async(std::launch::async, [&] {
    return plane->endpoint(Seat(0))
        .Receive(Forward(1, 0, 1), &expected, Soon())
        .status();
  });
  (*peer)->Signal(SIGKILL);
  const absl::Status cause = waiting.get();
  CHECK(cause.code() == absl::StatusCode::kUnavailable);
  CHECK(
      absl::StrContains(std::string(cause.message()),
                        absl::StrCat("peer ", address, " (s1.r0) is gone: ")));
  CHECK(lost.get_future().get() == cause);
  CHECK(plane->endpoint(Seat(0)).Send(Ramp(Forward(0, 1, 2), 1)).code() ==
        absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace pipework
