#include "daemon/transport/socket.h"

#include <catch2/catch.hpp>

#include "daemon/base/clock.h"

namespace pipework {
namespace {

TEST_CASE("socket: host and port are told apart, IPv6 in brackets") {
  auto got = ParseHostPort("10.0.0.2:7001");
  REQUIRE(got.ok());
  CHECK(got->host == "10.0.0.2");
  CHECK(got->port == 7001);
  got = ParseHostPort("[::1]:80");
  REQUIRE(got.ok());
  CHECK(got->host == "::1");
  CHECK(got->port == 80);
  for (const char* bad : {"", "n1", ":80", "n1:", "n1:x", "n1:0", "n1:65536",
                          "n1:-1", "::1:80", "[]:80"}) {
    CAPTURE(bad);
    CHECK(ParseHostPort(bad).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("socket: an address is joined as it is taken apart") {
  CHECK(JoinHostPort("n1", 7) == "n1:7");
  CHECK(JoinHostPort("::1", 7) == "[::1]:7");
}

TEST_CASE("socket: listening goes on to the next free port of a range") {
  auto first = Listen("127.0.0.1", 0, 0);
  REQUIRE(first.ok());
  REQUIRE(first->port > 0);
  const auto next = Listen("127.0.0.1", first->port, first->port + 20);
  REQUIRE(next.ok());
  CHECK(next->port > first->port);
  CHECK_FALSE(Listen("127.0.0.1", first->port, first->port).ok());
  CHECK_FALSE(Listen("no.such.host.invalid", 0, 0).ok());
}

TEST_CASE("socket: dialling nobody is refused, and names the address") {
  int port;
  {
    auto free = Listen("127.0.0.1", 0, 0);
    REQUIRE(free.ok());
    port = free->port;
  }
  const std::string address = JoinHostPort("127.0.0.1", port);
  const auto got = Dial(address, MonotonicNow() + absl::Seconds(30));
  REQUIRE(absl::IsUnavailable(got.status()));
  CHECK(std::string(got.status().message()).find(address) == 0);
}

TEST_CASE("socket: loopback addresses are on the loopback interface") {
  CHECK(InterfaceOf("127.0.0.1").name == "lo");
  CHECK(InterfaceOf("127.0.0.1").running);
  CHECK(InterfaceOf("127.0.0.9").name == "lo");
  CHECK(InterfaceOf("0.0.0.0").name.empty());
}

}  // namespace
}  // namespace pipework
