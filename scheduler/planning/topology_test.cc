#include "scheduler/planning/topology.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "google/protobuf/text_format.h"
#include "proto/text_file.h"

namespace pipework {
namespace {

v1::Topology Parse(const std::string& text) {
  v1::Topology topology;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &topology));
  return topology;
}

std::string Refusal(const std::string& text) {
  const auto expanded = ExpandTopology(Parse(text));
  REQUIRE(!expanded.ok());
  CHECK(expanded.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(expanded.status().message());
}

TEST_CASE("topology: levels become nodes with devices, components and links") {
  const auto topology = ExpandTopology(Parse(R"(
      levels { count: 2 bytes_per_second: 8e9 latency_seconds: 1e-6 }
      levels { count: 3 bytes_per_second: 1e9 }
      levels { count: 2 bytes_per_second: 5e8 }
      device { name: "cuda" kind: "V100" memory_bytes: 16 relative_speed: 2 })"));
  REQUIRE(topology.ok());
  REQUIRE(topology->nodes_size() == 6);
  CHECK(topology->nodes(5).name() == "n6");
  CHECK(topology->nodes(2).components(0) == 0);
  CHECK(topology->nodes(3).components(0) == 1);
  const v1::Device& device = topology->nodes(0).devices(1);
  CHECK(device.name() == "cuda:1");
  CHECK(device.kind() == "V100");
  CHECK(device.usable());
  CHECK(device.memory_bytes() == 16);
  CHECK(device.relative_speed() == 2);
  CHECK(device.cores().empty());
  CHECK(topology->local_bytes_per_second() == 8e9);
  CHECK(topology->local_latency_seconds() == 1e-6);
  CHECK(topology->link_bytes_per_second() == 1e9);
  // Expanding again changes nothing.
  CHECK(ExpandTopology(*topology)->SerializeAsString() ==
        topology->SerializeAsString());
}

TEST_CASE("topology: devices without a kind are cores of their own") {
  const auto topology =
      ExpandTopology(Parse("levels { count: 2 bytes_per_second: 1 }"));
  REQUIRE(topology.ok());
  CHECK(topology->nodes(0).devices(1).name() == "cpu:1");
  CHECK(topology->nodes(0).devices(1).cores(0) == 1);
}

TEST_CASE("topology: listed devices are usable unless they say why not") {
  const auto topology = ExpandTopology(Parse(R"(
      nodes { name: "a" devices { name: "cuda:0" }
              devices { name: "cuda:1" unusable_reason: "no driver" } }
      local_bytes_per_second: 1)"));
  REQUIRE(topology.ok());
  CHECK(topology->nodes(0).devices(0).usable());
  CHECK_FALSE(topology->nodes(0).devices(1).usable());
}

TEST_CASE("topology: links of all pairs need no figure for the others") {
  const std::string nodes = R"(
      nodes { name: "a" devices { name: "cpu:0" } }
      nodes { name: "b" devices { name: "cpu:0" } }
      nodes { name: "c" devices { name: "cpu:0" } }
      links { a: "a" b: "b" bytes_per_second: 5 }
      links { a: "c" b: "b" bytes_per_second: 3 latency_seconds: 0.1 })";
  CHECK(Refusal(nodes) ==
        "topology: link_bytes_per_second is 0, expected a number above 0, as "
        "there are several nodes; say it, or levels[1], or a link for every "
        "pair of nodes");
  const auto topology = ExpandTopology(
      Parse(nodes + R"(links { a: "a" b: "c" bytes_per_second: 4 })"));
  REQUIRE(topology.ok());
  CHECK(topology->link_bytes_per_second() == 3);
  CHECK(topology->link_latency_seconds() == 0.1);
}

TEST_CASE("topology: the clusters that ship are good") {
  const struct {
    const char* name;
    int nodes, devices;
  } files[] = {{"cluster_a", 4, 4},
               {"cluster_b", 2, 8},
               {"cluster_c", 4, 1},
               {"thousand", 128, 8}};
  for (const auto& file : files) {
    INFO(file.name);
    v1::Topology topology;
    REQUIRE(
        ReadTextFile(std::string("testdata/clusters/") + file.name + ".txtpb",
                     &topology)
            .ok());
    const auto expanded = ExpandTopology(topology);
    REQUIRE(expanded.ok());
    CHECK(expanded->nodes_size() == file.nodes);
    CHECK(expanded->nodes(0).devices_size() == file.devices);
    CHECK(expanded->nodes(0).devices(0).memory_bytes() > 0);
  }
}

TEST_CASE("topology: what is wrong is named with its place") {
  const std::string node = R"(nodes { name: "a" devices { name: "cpu:0" } } )";
  const struct {
    std::string text;
    std::string message;
  } rows[] = {
      {"",
       "topology: the number of devices is 0, expected 1 to 65536; list nodes "
       "with devices, or levels with a count"},
      {R"(nodes { name: "a" })",
       "topology: the number of devices is 0, expected 1 to 65536; list nodes "
       "with devices, or levels with a count"},
      {R"(levels { name: "node" bytes_per_second: 1 })",
       "topology: levels[0] (\"node\"): count is 0, expected 1 or more"},
      {"levels { count: 2 }",
       "topology: levels[0]: bytes_per_second is 0, expected 1 to 1e+15; say "
       "how many bytes per second the link carries"},
      {"levels { count: 2 bytes_per_second: nan }",
       "topology: levels[0]: bytes_per_second is nan, expected 1 to 1e+15; say "
       "how many bytes per second the link carries"},
      {"levels { count: 2 bytes_per_second: 1e-300 }",
       "topology: levels[0]: bytes_per_second is 1e-300, expected 1 to 1e+15; "
       "say how many bytes per second the link carries"},
      {"levels { count: 2 bytes_per_second: 1e300 }",
       "topology: levels[0]: bytes_per_second is 1e+300, expected 1 to 1e+15; "
       "say how many bytes per second the link carries"},
      {"levels { count: 2 bytes_per_second: 1 latency_seconds: -1 }",
       "topology: levels[0]: latency_seconds is -1, expected 0 to 1000; say "
       "how many seconds a message takes"},
      {"levels { count: 2 bytes_per_second: 1 latency_seconds: 1e300 }",
       "topology: levels[0]: latency_seconds is 1e+300, expected 0 to 1000; "
       "say how many seconds a message takes"},
      {"levels { count: 65536 bytes_per_second: 1 } "
       "levels { count: 2 bytes_per_second: 1 }",
       "topology: levels[1]: count is 2, expected so few that the cluster has "
       "at most 65536 devices"},
      {"levels { count: 1 bytes_per_second: 1 } device { memory_bytes: -4 }",
       "topology: device: memory_bytes is -4, expected 0 (unknown) or more"},
      {"levels { count: 1 bytes_per_second: 1 } device { relative_speed: inf }",
       "topology: device: relative_speed is inf, expected 0.001 to 1000, or 0 "
       "for the speed that was profiled"},
      {"levels { count: 1 bytes_per_second: 1 } "
       "device { relative_speed: 1e300 }",
       "topology: device: relative_speed is 1e+300, expected 0.001 to 1000, or "
       "0 for the speed that was profiled"},
      {"levels { count: 1 bytes_per_second: 1 } device { name: \"\\377\" }",
       "topology: device: name is \"\\xff\", expected 1 to 200 printable "
       "ASCII characters without spaces, commas and slashes"},
      {node + node,
       "topology: node a: its name is there twice, expected one node of that "
       "name"},
      {R"(nodes { name: "a" devices { name: "cpu:0" } devices { name: "cpu:0" }})",
       "topology: node a/cpu:0: its name is there twice, expected one device "
       "of "
       "that name"},
      {R"(nodes { name: "a b\n" devices { name: "cpu:0" } })",
       "topology: the name of a node is \"a b\\n\", expected 1 to 200 "
       "printable ASCII characters without spaces, commas and slashes"},
      {node + R"(links { a: "a" b: "z" bytes_per_second: 1 })",
       "topology: links[0]: b is \"z\", expected the name of a node; list the "
       "node, or mend its name"},
      {node + R"(links { a: "a" b: "a" bytes_per_second: 1 })",
       "topology: links[0] (a-a): b is the same node as a, expected another "
       "one; links within nodes are local_bytes_per_second"},
      {node + R"(nodes { name: "b" } links { a: "a" b: "b" })",
       "topology: links[0] (a-b): bytes_per_second is 0, expected 1 to 1e+15; "
       "say how many bytes per second the link carries"},
      {node + R"(nodes { name: "b" } links { a: "a" b: "b" bytes_per_second: 1 }
                 links { a: "b" b: "a" bytes_per_second: 1 })",
       "topology: links[1] (b-a): the pair is there twice, expected one link"},
      {node + "link_bytes_per_second: -1",
       "topology: link_bytes_per_second is -1, expected 1 to 1e+15, or 0; say "
       "how many bytes per second the link carries"},
      {R"(nodes { name: "a" devices { name: "d" } devices { name: "e" } })",
       "topology: local_bytes_per_second is 0, expected a number above 0, as a "
       "node has several devices; say it, or levels[0]"},
      {R"(nodes { name: "a" devices { name: "d" } components: 1 })",
       "topology: node a: the number of components is 1, expected 0, one for "
       "each level above nodes; say for levels[2] and further which of them "
       "the node is in"},
      {"levels { count: 1 bytes_per_second: 1 } "
       "levels { count: 1 bytes_per_second: 1 } "
       "levels { count: 1 bytes_per_second: 1 } "
       "nodes { name: \"a\" devices { name: \"d\" } components: -7 }",
       "topology: node a: a component is -7, expected 0 or more"},
  };
  for (const auto& row : rows) CHECK(Refusal(row.text) == row.message);
}

TEST_CASE("topology: flags give levels from the innermost out") {
  const auto levels = LevelsOf("4,2", "8e9,1.25GB", "");
  REQUIRE(levels.ok());
  CHECK(levels->levels(0).count() == 4);
  CHECK(levels->levels(0).bytes_per_second() == 8e9);
  CHECK(levels->levels(0).latency_seconds() == 0);
  CHECK(levels->levels(1).count() == 2);
  CHECK(levels->levels(1).bytes_per_second() == 1.25e9);
  const auto gigabit = LevelsOf("4,2", "", "");
  REQUIRE(gigabit.ok());
  CHECK(gigabit->levels(1).bytes_per_second() == 125e6);
  CHECK(gigabit->levels(1).latency_seconds() == 50e-6);
  CHECK(LevelsOf("4", "1e9", "2e-6")->levels(0).latency_seconds() == 2e-6);
  const auto units = LevelsOf("4,2", "1e9,1e9", "2us,5ms");
  REQUIRE(units.ok());
  CHECK(units->levels(0).latency_seconds() == Approx(2e-6));
  CHECK(units->levels(1).latency_seconds() == Approx(5e-3));
}

TEST_CASE("topology: flags that cannot be are refused, whichever it is") {
  const auto refusal = [](const char* counts, const char* speeds,
                          const char* waits) {
    const auto levels = LevelsOf(counts, speeds, waits);
    return std::string(levels.status().message());
  };
  for (const char* counts : {"0", "-1", "x", "", "4,", "4,0", "70000",
                             "300,300", "99999999999", "1,1,1,1,1,1,1,1,1"}) {
    CHECK(refusal(counts, "", "").rfind("--devices: value is", 0) == 0);
  }
  for (const char* speeds : {"0", "nan", "inf", "-1", "fast", "1e9,1e9", "1e9,",
                             "1e-300", "1e300", "1e14GB"}) {
    CHECK(refusal("4", speeds, "").rfind("--bandwidth: value is", 0) == 0);
  }
  for (const char* waits : {"nan", "-1", "soon", "0,0", "1e300", "1e9", "5m"}) {
    CHECK(refusal("4", "1e9", waits).rfind("--latency: value is", 0) == 0);
  }
}

}  // namespace
}  // namespace pipework
