#include "daemon/coordinator/cluster.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "proto/version.h"

namespace pipework {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

v1::Hello Hello(const std::string& name, uint64_t incarnation, int devices) {
  v1::Hello hello;
  hello.set_node(name);
  hello.set_incarnation(incarnation);
  hello.set_address("127.0.0.1");
  hello.set_version(kVersion);
  for (int i = 0; i < devices; ++i) {
    v1::Device* device = hello.add_devices();
    device->set_name(absl::StrCat("cpu:", i));
    device->set_usable(true);
  }
  return hello;
}

uint64_t Register(Cluster& cluster, const v1::Hello& hello, absl::Time now) {
  const auto registration = cluster.Register(hello, now);
  INFO(registration.status().message());
  REQUIRE(registration.ok());
  return registration->session;
}

TEST_CASE("cluster: a silent node is suspect after 6 s and lost after 15 s") {
  Cluster cluster({});
  const uint64_t session = Register(cluster, Hello("n1", 1, 1), kStart);
  CHECK(cluster.Tick(kStart + absl::Seconds(5)).empty());
  CHECK(cluster.StateOf("n1") == LeaseState::kReady);
  CHECK(cluster.Tick(kStart + absl::Seconds(6)).empty());
  CHECK(cluster.StateOf("n1") == LeaseState::kSuspect);
  CHECK(cluster.ReadyNodes().empty());
  // Heard again: nothing has happened.
  CHECK(cluster.Heard("n1", session, kStart + absl::Seconds(7)));
  CHECK(cluster.StateOf("n1") == LeaseState::kReady);
  CHECK(cluster.Tick(kStart + absl::Seconds(21)).empty());
  const auto lost = cluster.Tick(kStart + absl::Seconds(22));
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].node == "n1");
  CHECK(lost[0].session == session);
  CHECK(lost[0].why == "node n1: no heartbeat for 15.0 s, limit 15.0 s");
  CHECK(cluster.Tick(kStart + absl::Seconds(30)).empty());  // told once
}

TEST_CASE(
    "cluster: what a lost node says later is not heard until it registers") {
  Cluster cluster({});
  const uint64_t session = Register(cluster, Hello("n1", 1, 1), kStart);
  REQUIRE(cluster.Tick(kStart + absl::Seconds(20)).size() == 1);
  CHECK_FALSE(cluster.Heard("n1", session, kStart + absl::Seconds(21)));
  CHECK(cluster.StateOf("n1") == LeaseState::kLost);
  Register(cluster, Hello("n1", 1, 1), kStart + absl::Seconds(22));
  CHECK(cluster.StateOf("n1") == LeaseState::kReady);
}

TEST_CASE("cluster: a closed connection is given three seconds") {
  Cluster cluster({});
  const uint64_t session = Register(cluster, Hello("n1", 1, 1), kStart);
  cluster.SessionClosed("n1", session, kStart + absl::Seconds(1));
  CHECK(cluster.StateOf("n1") == LeaseState::kSuspect);
  CHECK(cluster.Tick(kStart + absl::Seconds(3)).empty());
  SECTION("it comes back") {
    const auto again =
        cluster.Register(Hello("n1", 1, 1), kStart + absl::Seconds(3));
    REQUIRE(again.ok());
    CHECK_FALSE(again->restarted);
    CHECK(cluster.Tick(kStart + absl::Seconds(5)).empty());
  }
  SECTION("it does not") {
    const auto lost = cluster.Tick(kStart + absl::Seconds(4));
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].why.find("closed the connection") != std::string::npos);
  }
  SECTION("another process comes in its place") {
    const auto again =
        cluster.Register(Hello("n1", 2, 1), kStart + absl::Seconds(2));
    REQUIRE(again.ok());
    CHECK(again->restarted);
  }
}

TEST_CASE("cluster: the close of an old session does not hurt the new one") {
  Cluster cluster({});
  const uint64_t old_session = Register(cluster, Hello("n1", 1, 1), kStart);
  Register(cluster, Hello("n1", 1, 1), kStart);
  cluster.SessionClosed("n1", old_session, kStart);
  CHECK(cluster.StateOf("n1") == LeaseState::kReady);
}

TEST_CASE(
    "cluster: a daemon that leaves takes nothing new and is lost at its "
    "close") {
  Cluster cluster({});
  const uint64_t session = Register(cluster, Hello("n1", 1, 1), kStart);
  cluster.SetLeaving("n1");
  CHECK(cluster.ReadyNodes().empty());
  CHECK(cluster.Heard("n1", session, kStart));
  CHECK(cluster.ReadyNodes().empty());
  CHECK(cluster.Tick(kStart).empty());
  cluster.SessionClosed("n1", session, kStart);
  const auto lost = cluster.Tick(kStart);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].why == "node n1: its daemon was shut down");
}

TEST_CASE("cluster: a name belongs to one living daemon") {
  Cluster cluster({});
  Register(cluster, Hello("n1", 1, 1), kStart);
  const auto second = cluster.Register(Hello("n1", 2, 1), kStart);
  CHECK(absl::IsAlreadyExists(second.status()));
  // A silent one may have been replaced.
  cluster.Tick(kStart + absl::Seconds(7));
  CHECK(cluster.Register(Hello("n1", 2, 1), kStart + absl::Seconds(7)).ok());
}

TEST_CASE("cluster: a hello that makes no sense is refused") {
  Cluster cluster({});
  v1::Hello hello = Hello("n1", 1, 1);
  hello.set_version("0.0.0");
  const auto other = cluster.Register(hello, kStart);
  CHECK(absl::IsInvalidArgument(other.status()));
  CHECK(other.status().message().find("0.0.0") != std::string::npos);
  CHECK_FALSE(cluster.Register(Hello("", 1, 1), kStart).ok());
  CHECK_FALSE(cluster.Register(Hello("../x", 1, 1), kStart).ok());
  hello = Hello("n1", 1, 2);
  hello.mutable_devices(1)->set_name("cpu:0");
  CHECK_FALSE(cluster.Register(hello, kStart).ok());
}

TEST_CASE(
    "cluster: a device has one owner, and free is what nobody else owns") {
  Cluster cluster({});
  Register(cluster, Hello("n1", 1, 2), kStart);
  v1::Hello gpu = Hello("n2", 1, 1);
  v1::Device* unusable = gpu.add_devices();
  unusable->set_name("cuda:0");
  unusable->set_unusable_reason("no kernels");
  Register(cluster, gpu, kStart);
  CHECK(Cluster::CountDevices(cluster.FreeFor("j-a")) == 3);

  cluster.Own("j-a", {"n1/cpu:0", "n1/cpu:1"});
  CHECK(Cluster::CountDevices(cluster.FreeFor("j-a")) == 3);
  CHECK(Cluster::CountDevices(cluster.FreeFor("j-b")) == 1);
  CHECK(Cluster::CountDevices(cluster.Whole()) == 3);
  CHECK(cluster.Owners("j-b") == std::vector<std::string>{"j-a"});
  CHECK(cluster.Owners("j-a").empty());
  CHECK(cluster.Describe(kStart)[0].jobs().at("cpu:0") == "j-a");

  cluster.ReleaseBut("j-a", {"n1/cpu:1"});
  CHECK(cluster.OwnedBy("j-a") == std::vector<std::string>{"n1/cpu:1"});
  cluster.Strand("j-a", "n1");
  CHECK(Cluster::CountDevices(cluster.FreeFor("j-a")) == 2);
  cluster.ReleaseStranded("j-a", "n1");
  CHECK(Cluster::CountDevices(cluster.FreeFor("j-b")) == 3);
}

TEST_CASE(
    "cluster: a suspect node's devices are kept, and nothing new goes there") {
  Cluster cluster({});
  Register(cluster, Hello("n1", 1, 2), kStart);
  cluster.Tick(kStart + absl::Seconds(7));
  CHECK(Cluster::CountDevices(cluster.FreeFor("j-a")) == 0);
  CHECK(Cluster::CountDevices(cluster.Whole()) == 2);
}

TEST_CASE(
    "cluster: after a restart of the coordinator nodes have the lease to come "
    "back") {
  Cluster cluster({});
  cluster.Expect("n1", 5, kStart);
  CHECK(cluster.Tick(kStart + absl::Seconds(14)).empty());
  SECTION("in time") {
    const auto back =
        cluster.Register(Hello("n1", 5, 1), kStart + absl::Seconds(14));
    REQUIRE(back.ok());
    CHECK_FALSE(back->restarted);
  }
  SECTION("as another process") {
    const auto back =
        cluster.Register(Hello("n1", 6, 1), kStart + absl::Seconds(14));
    REQUIRE(back.ok());
    CHECK(back->restarted);
  }
  SECTION("never") {
    const auto lost = cluster.Tick(kStart + absl::Seconds(15));
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].why.find("did not come back") != std::string::npos);
  }
}

TEST_CASE(
    "cluster: up to eight nodes every pair is to be measured, of more a ring") {
  Cluster cluster({});
  for (int i = 0; i < 8; ++i) {
    Register(cluster, Hello(absl::StrCat("n", i), 1, 1), kStart);
  }
  CHECK(cluster.UnknownLinks(cluster.Whole(), absl::InfinitePast()).size() ==
        28);
  Register(cluster, Hello("n8", 1, 1), kStart);
  const auto ring = cluster.UnknownLinks(cluster.Whole(), absl::InfinitePast());
  REQUIRE(ring.size() == 9);
  CHECK(ring[0] == std::pair<std::string, std::string>("n0", "n1"));
  CHECK(ring[8] == std::pair<std::string, std::string>("n0", "n8"));
}

TEST_CASE(
    "cluster: a measured link stands for its pair, the slowest for all "
    "others") {
  Cluster cluster({});
  for (const char* name : {"n1", "n2", "n3"}) {
    Register(cluster, Hello(name, 1, 1), kStart);
  }
  v1::LinkMeasurement link;
  link.set_a("n2");
  link.set_b("n1");
  link.set_bytes_per_second(5e8);
  link.set_latency_seconds(1e-4);
  link.set_measured_at(1000);
  cluster.SetLink(link);
  v1::Topology whole = cluster.Whole();
  REQUIRE(whole.links_size() == 1);
  CHECK(whole.links(0).a() == "n1");
  CHECK(whole.links(0).b() == "n2");
  CHECK(whole.links(0).measured());
  CHECK(whole.link_bytes_per_second() == 5e8);
  CHECK(whole.link_latency_seconds() == 1e-4);
  const auto old = absl::FromUnixSeconds(1001);
  CHECK(cluster.UnknownLinks(whole, absl::InfinitePast()).size() == 2);
  CHECK(cluster.UnknownLinks(whole, old).size() == 3);
  link.set_a("n3");
  link.set_bytes_per_second(1e9);
  link.set_latency_seconds(1e-5);
  cluster.SetLink(link);
  whole = cluster.Whole();
  CHECK(whole.links_size() == 2);
  CHECK(whole.link_bytes_per_second() == 5e8);

  // Another process takes it over, but not of a node that has moved.
  Cluster later({});
  later.LoadLinks(cluster.Links());
  CHECK(later.Whole().links_size() == 0);
  v1::Hello moved = Hello("n3", 1, 1);
  moved.set_address("10.0.0.3");
  Register(later, Hello("n1", 1, 1), kStart);
  Register(later, Hello("n2", 1, 1), kStart);
  Register(later, moved, kStart);
  CHECK(later.Whole().links_size() == 1);
}

}  // namespace
}  // namespace pipework
