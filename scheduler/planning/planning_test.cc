#include "scheduler/planning/planning.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "google/protobuf/util/message_differencer.h"
#include "partitioner/profile.h"
#include "scheduler/testing/jobs.h"

namespace pipework {
namespace {

using testing::ChainGraph;
using testing::Cluster;
using testing::ProfileOf;
using testing::SpecOf;
using List = std::vector<double>;

absl::StatusOr<v1::Plan> PlanOf(const v1::JobSpec& spec, const List& seconds,
                                const v1::Topology& topology,
                                PlanningOptions options = {}) {
  const v1::Graph graph = ChainGraph(static_cast<int>(seconds.size()));
  return PlanJob(spec, graph, ProfileOf(graph, seconds), topology, options);
}

// "0-2x1 3-4x2": layers and replicas.
std::string CutsText(const v1::Plan& plan) {
  std::string text;
  for (const v1::PlanStage& stage : plan.stages()) {
    text += (text.empty() ? "" : " ") + std::to_string(stage.first_layer()) +
            "-" + std::to_string(stage.end_layer() - 1) + "x" +
            std::to_string(stage.replicas());
  }
  return text;
}

std::string DevicesText(const v1::Plan& plan) {
  std::string text;
  for (const v1::PlanStage& stage : plan.stages()) {
    for (const std::string& device : stage.devices()) {
      text += (text.empty() ? "" : " ") + device;
    }
  }
  return text;
}

std::string Refusal(const absl::StatusOr<v1::Plan>& plan,
                    absl::StatusCode code) {
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().code() == code);
  return std::string(plan.status().message());
}

TEST_CASE(
    "planning: equal layers on equal devices run as fast as all of them "
    "together") {
  const auto plan = PlanOf(SpecOf(), List(8, 1), Cluster(2, 2));
  REQUIRE(plan.ok());
  CHECK(plan->predicted_step_ms() == Approx(2000));
  CHECK(plan->samples_per_second() == Approx(4));
  CHECK(plan->bubble() == Approx(0).margin(1e-9));
  CHECK(plan->feasible());
  CHECK(plan->schedule() == "1f1b");
  CHECK(plan->weights() == "stash");
}

TEST_CASE(
    "planning: a pinned number of stages gets the best cuts, in device order") {
  const auto plan = PlanOf(SpecOf(4), {1, 1, 1, 3, 1, 1, 2}, Cluster(2, 2));
  REQUIRE(plan.ok());
  CHECK(CutsText(*plan) == "0-2x1 3-3x1 4-5x1 6-6x1");
  CHECK(DevicesText(*plan) == "n1/cpu:0 n1/cpu:1 n2/cpu:0 n2/cpu:1");
  CHECK(plan->predicted_step_ms() == Approx(3000));
  CHECK(plan->bottleneck_seconds() == Approx(3));
  CHECK(plan->in_flight() == 4);
  CHECK(plan->stages(0).warmup() == 3);
  CHECK(plan->stages(3).warmup() == 0);
}

TEST_CASE(
    "planning: a pinned number of stages means one replica of each, and auto "
    "uses every device") {
  const auto two = PlanOf(SpecOf(2), List(4, 1), Cluster(1, 4));
  REQUIRE(two.ok());
  CHECK(CutsText(*two) == "0-1x1 2-3x1");
  CHECK(two->predicted_step_ms() == Approx(2000));
  const auto automatic = PlanOf(SpecOf(), List(4, 1), Cluster(1, 4));
  REQUIRE(automatic.ok());
  CHECK(automatic->predicted_step_ms() == Approx(1000));
}

TEST_CASE(
    "planning: a chain of thousands of layers is cut between groups of them, "
    "each layer in one stage, as good as even") {
  List seconds(2500, 1);
  for (int l = 0; l < 500; ++l) seconds[l] = 0;
  const auto plan = PlanOf(SpecOf(4), seconds, Cluster(2, 2));
  REQUIRE(plan.ok());
  REQUIRE(plan->stages_size() == 4);
  int next = 0;
  for (const v1::PlanStage& stage : plan->stages()) {
    CHECK(stage.first_layer() == next);
    CHECK(stage.forward_seconds() + stage.backward_seconds() <= 504);
    next = stage.end_layer();
  }
  CHECK(next == 2500);
}

// Two nodes with one core each and two devices on it: the main job's cluster.
TEST_CASE(
    "planning: stages on one core run one after the other, and groups are "
    "balanced") {
  const List seconds = {4, 1, 1, 1, 1, 3, 1};
  const double total = 12;
  const auto plan = PlanOf(SpecOf(4), seconds, Cluster(2, 2, 1));
  REQUIRE(plan.ok());
  CHECK(plan->stages_size() == 4);
  std::map<std::string, double> node_seconds;
  std::set<std::string> devices;
  for (const v1::PlanStage& stage : plan->stages()) {
    REQUIRE(stage.devices_size() == 1);
    devices.insert(stage.devices(0));
    node_seconds[stage.devices(0).substr(0, 2)] +=
        stage.forward_seconds() + stage.backward_seconds();
  }
  CHECK(devices.size() == 4);
  CHECK(node_seconds["n1"] == Approx(total / 2));
  CHECK(node_seconds["n2"] == Approx(total / 2));
  // Neighbours share nodes.
  CHECK(plan->stages(0).devices(0).substr(0, 2) ==
        plan->stages(1).devices(0).substr(0, 2));
  CHECK(plan->predicted_step_ms() >= 1e3 * total / 2 - 1e-6);
  CHECK(plan->predicted_step_ms() == Approx(1e3 * total / 2).epsilon(0.05));
}

TEST_CASE("planning: shared cores make extra devices worth nothing") {
  const auto plan = PlanOf(SpecOf(), List(4, 1), Cluster(2, 2, 1));
  REQUIRE(plan.ok());
  int devices = 0;
  for (const v1::PlanStage& stage : plan->stages()) {
    devices += stage.devices_size();
  }
  CHECK(devices == 2);
  CHECK(plan->predicted_step_ms() == Approx(2000));
}

TEST_CASE("planning: what an action costs is in the step") {
  const v1::Graph graph = ChainGraph(2);
  v1::Profile profile = ProfileOf(graph, {1, 1});
  profile.set_action_seconds(0.01);
  const auto plan = PlanJob(SpecOf(1), graph, profile, Cluster(1, 1), {});
  REQUIRE(plan.ok());
  // F B R U
  CHECK(plan->predicted_step_ms() == Approx(2040));
}

TEST_CASE(
    "planning: flush takes the makespan of its minibatch, bubble included") {
  v1::JobSpec spec = SpecOf(4);
  spec.mutable_pipeline()->set_schedule("flush");
  spec.mutable_batch()->set_minibatch(64);
  spec.mutable_batch()->set_microbatches(8);
  // Units of 8 samples as profiled: F = 1, B = 2 on each of 4 stages.
  const auto plan = PlanOf(spec, List(4, 3), Cluster(2, 2));
  REQUIRE(plan.ok());
  CHECK(plan->predicted_step_ms() == Approx(33000));
  CHECK(plan->bubble() == Approx(3.0 / 11));
  CHECK(plan->samples_per_second() == Approx(64.0 / 33));
  CHECK(plan->microbatches() == 8);
}

// Once refused, since the depths to compare with are not for this schedule.
TEST_CASE("planning: model parallelism plans with the one depth that it has") {
  v1::JobSpec spec = SpecOf(4);
  spec.mutable_pipeline()->set_schedule("model_parallel");
  const auto plan = PlanOf(spec, List(4, 3), Cluster(2, 2));
  REQUIRE(plan.ok());
  CHECK(plan->predicted_step_ms() == Approx(12000));
  CHECK(plan->in_flight() == 1);
  REQUIRE(plan->depths_size() == 1);
  CHECK(plan->depths(0).in_flight() == 1);
}

// minibatch = microbatch x microbatches x replicas of the first stage, as the
// executors count: here two chains side by side, of two stages.
TEST_CASE("planning: each first replica has microbatches of its own") {
  v1::JobSpec spec = SpecOf();
  spec.mutable_pipeline()->set_schedule("flush");
  spec.mutable_batch()->set_minibatch(64);
  spec.mutable_batch()->set_microbatches(4);
  for (int s = 0; s < 2; ++s) {
    spec.mutable_pipeline()->add_stages()->set_replicas(2);
  }
  // 8 units of 8 samples as profiled, 4 in each chain: (4 + 1) (F + B).
  const auto flush = PlanOf(spec, List(2, 3), Cluster(2, 2));
  REQUIRE(flush.ok());
  CHECK(flush->predicted_step_ms() == Approx(15000));
  CHECK(flush->microbatches() == 4);
  CHECK(flush->stages(0).forward_seconds() == Approx(1));
  CHECK(flush->stages(0).backward_seconds() == Approx(2));

  // 4 units are as deep as the pipeline: two first replicas, two in flight on
  // each. Of 16 samples, so twice as long; nothing is idle.
  spec.mutable_pipeline()->set_schedule("two_version");
  spec.mutable_batch()->set_microbatches(2);
  const auto two = PlanOf(spec, List(2, 3), Cluster(2, 2));
  REQUIRE(two.ok());
  CHECK(two->predicted_step_ms() == Approx(12000));
  CHECK(two->stages(0).versions() == 2);
  spec.mutable_batch()->set_microbatches(1);
  CHECK(std::string(PlanOf(spec, List(2, 3), Cluster(2, 2)).status().message())
            .find("microbatches is 2, expected 4 or more, the depth of the "
                  "pipeline") != std::string::npos);
}

TEST_CASE(
    "planning: the paper's model gives the paper's partition over levels") {
  const v1::Graph graph = ChainGraph(5);
  v1::Profile profile = ProfileOf(graph, {4, 4, 4, 2, 1});
  const int64_t outputs[] = {8, 4, 2, 1, 1};
  const int64_t weights[] = {1, 1, 1, 40, 20};
  for (int l = 0; l < 5; ++l) {
    profile.mutable_layers(l)->set_output_bytes(outputs[l]);
    profile.mutable_layers(l)->set_parameter_bytes(weights[l]);
  }
  v1::Topology topology = Cluster(2, 2);
  topology.set_local_bytes_per_second(20);
  topology.set_link_bytes_per_second(5);
  PlanningOptions options;
  options.cost_model = "paper";
  const auto plan = PlanJob(SpecOf(), graph, profile, topology, options);
  REQUIRE(plan.ok());
  CHECK(CutsText(*plan) == "0-1x2 2-4x2");
  CHECK(plan->cost_model() == "paper");
  // One node with four devices: a single level.
  v1::Topology flat = Cluster(1, 4);
  flat.set_local_bytes_per_second(10);
  const auto one = PlanJob(SpecOf(), graph, profile, flat, options);
  REQUIRE(one.ok());
  CHECK(CutsText(*one) == "0-2x3 3-4x1");
  CHECK(one->bottleneck_seconds() == Approx(4));
}

TEST_CASE(
    "planning: rivals are compared with data parallelism on the same devices") {
  const auto plan = PlanOf(SpecOf(4), List(4, 1), Cluster(1, 4));
  REQUIRE(plan.ok());
  std::map<std::string, v1::Rival> rivals;
  for (const v1::Rival& rival : plan->rivals()) {
    rivals[rival.name()] = rival;
    CHECK(rival.feasible());
  }
  CHECK(rivals["one_device"].samples_per_second() == Approx(2));
  CHECK(rivals["model_parallel"].samples_per_second() == Approx(2));
  CHECK(rivals["data_parallel"].samples_per_second() == Approx(8));
  CHECK(rivals["straight"].samples_per_second() == Approx(8));
  CHECK(rivals["data_parallel"].speedup_over_data_parallel() == Approx(1));
  CHECK(rivals["one_device"].speedup_over_data_parallel() == Approx(0.25));
}

TEST_CASE("planning: the next best plans differ and come in order") {
  PlanningOptions options;
  options.alternatives = 3;
  const auto plan = PlanOf(SpecOf(), {1, 2, 3, 1}, Cluster(1, 3), options);
  REQUIRE(plan.ok());
  REQUIRE(plan->alternatives_size() == 3);
  std::set<std::string> seen = {CutsText(*plan)};
  double last = plan->predicted_step_ms() / 1.01;
  for (const v1::Plan& other : plan->alternatives()) {
    CHECK(seen.insert(CutsText(other)).second);
    CHECK(other.predicted_step_ms() >= last);
    last = other.predicted_step_ms() / 1.01;
  }
}

TEST_CASE("planning: listed stages keep their layers, replicas and devices") {
  v1::JobSpec spec = SpecOf();
  v1::StageSpec* first = spec.mutable_pipeline()->add_stages();
  first->add_layers("l0");
  first->add_layers("l1..l2");
  first->set_replicas(2);
  first->add_devices("n2/cpu:1");
  first->add_devices("n1/cpu:0");
  spec.mutable_pipeline()->add_stages()->add_layers("l3..l4");
  const auto plan = PlanOf(spec, List(5, 1), Cluster(2, 2));
  REQUIRE(plan.ok());
  CHECK(CutsText(*plan) == "0-2x2 3-4x1");
  CHECK(plan->stages(0).devices(0) == "n2/cpu:1");
  CHECK(plan->stages(0).devices(1) == "n1/cpu:0");
  CHECK(plan->stages(1).layers(1) == "l4");
  CHECK(plan->stages(0).index() == 0);
  CHECK(plan->stages(1).index() == 1);
}

TEST_CASE("planning: stages that do not hold the graph are refused") {
  const auto listed = [](std::vector<std::vector<std::string>> stages) {
    v1::JobSpec spec = SpecOf();
    for (const auto& layers : stages) {
      v1::StageSpec* stage = spec.mutable_pipeline()->add_stages();
      for (const std::string& layer : layers) stage->add_layers(layer);
    }
    return Refusal(PlanOf(spec, List(4, 1), Cluster(1, 4)),
                   absl::StatusCode::kInvalidArgument);
  };
  CHECK(listed({{"l0..l2"}}) ==
        "pipeline.stages: the stage of \"l3\" is missing, expected one of "
        "those listed; stages hold all layers of the graph");
  CHECK(listed({{"l0"}, {"l2..l3"}}) ==
        "pipeline.stages: the stage of \"l1\" is missing, expected one of "
        "those listed; stages hold all layers of the graph");
  CHECK(listed({{"l0..l3"}, {"l3"}}) ==
        "pipeline.stages[1].layers: a layer is \"l3\", expected one that is "
        "not in pipeline.stages[0]; every layer is in one stage");
  CHECK(listed({{"l0", "l2"}, {"l1", "l3"}}) ==
        "pipeline.stages[0].layers: \"l2\" is before \"l1\" in "
        "pipeline.stages[1], expected in the same stage or a later one; it "
        "reads its output");
  CHECK(listed({{"l0", "conv"}}) ==
        "pipeline.stages[0].layers: a layer is \"conv\", expected the name of "
        "a layer of the graph");
  CHECK(listed({{"l2..l0"}}) ==
        "pipeline.stages[0].layers: a range is \"l2..l0\", expected one from "
        "an earlier to a later layer");
  CHECK(listed({{}, {"l0..l3"}}) ==
        "pipeline.stages[0]: the number of layers is 0, expected 1 or more; or "
        "list no layers in any stage");
}

TEST_CASE("planning: stages listed without layers keep replicas, and are cut") {
  v1::JobSpec spec = SpecOf();
  v1::StageSpec* first = spec.mutable_pipeline()->add_stages();
  first->set_replicas(3);
  spec.mutable_pipeline()->add_stages()->add_devices("n1/cpu:2");
  const auto plan = PlanOf(spec, List(8, 1), Cluster(2, 3));
  REQUIRE(plan.ok());
  CHECK(CutsText(*plan) == "0-5x3 6-7x1");
  CHECK(plan->stages(1).devices(0) == "n1/cpu:2");
  CHECK(plan->predicted_step_ms() == Approx(2000));
  first->set_replicas(6);
  CHECK(Refusal(PlanOf(spec, List(8, 1), Cluster(2, 3)),
                absl::StatusCode::kFailedPrecondition) ==
        "plan: the number of devices needed is 7 (2 stages with their "
        "replicas), expected at most 6, the usable devices of the cluster; use "
        "fewer stages or replicas, or add devices");
}

TEST_CASE("planning: devices that share cores pay for messages with them") {
  const v1::Graph graph = ChainGraph(4);
  v1::Profile profile = ProfileOf(graph, List(4, 1));
  v1::Topology topology = Cluster(2, 2, 1);
  const auto free = PlanJob(SpecOf(4), graph, profile, topology, {});
  topology.set_link_latency_seconds(30e-6);
  topology.set_local_latency_seconds(30e-6);
  const auto plan = PlanJob(SpecOf(4), graph, profile, topology, {});
  REQUIRE(free.ok());
  REQUIRE(plan.ok());
  // On each core two stages, which send and receive nine messages: 3 there, 3
  // back, and the labels, at two ends.
  CHECK(plan->predicted_step_ms() - free->predicted_step_ms() ==
        Approx(7 * 0.030).epsilon(0.3));
}

TEST_CASE(
    "planning: pinned devices that are not there, or there twice, are "
    "refused") {
  v1::JobSpec spec = SpecOf();
  v1::StageSpec* stage = spec.mutable_pipeline()->add_stages();
  stage->add_layers("l0..l1");
  stage->set_replicas(2);
  stage->add_devices("n1/cpu:0");
  CHECK(Refusal(PlanOf(spec, {1, 1}, Cluster(1, 2)),
                absl::StatusCode::kInvalidArgument) ==
        "pipeline.stages[0].devices: its length is 1, expected 2, one for each "
        "replica");
  stage->add_devices("n1/cuba:0");
  CHECK(Refusal(PlanOf(spec, {1, 1}, Cluster(1, 2)),
                absl::StatusCode::kInvalidArgument) ==
        "pipeline.stages[0].devices: a device is \"n1/cuba:0\", expected a "
        "usable device of the cluster: n1/cpu:0, n1/cpu:1");
  stage->set_devices(1, "n1/cpu:0");
  CHECK(Refusal(PlanOf(spec, {1, 1}, Cluster(1, 2)),
                absl::StatusCode::kInvalidArgument) ==
        "pipeline.stages[0].devices: a device is \"n1/cpu:0\" again, expected "
        "a device for one replica only");
}

// A job that asked for more than the cluster has once waited for ever.
TEST_CASE(
    "planning: nine devices on a cluster of eight are refused with the "
    "numbers") {
  CHECK(Refusal(PlanOf(SpecOf(9), List(12, 1), Cluster(2, 4)),
                absl::StatusCode::kFailedPrecondition) ==
        "plan: the number of devices needed is 9 (9 stages), expected at most "
        "8, the usable devices of the cluster; use fewer stages or replicas, "
        "or add devices");
}

TEST_CASE("planning: more stages than layers names both numbers") {
  CHECK(Refusal(PlanOf(SpecOf(5), List(4, 1), Cluster(2, 4)),
                absl::StatusCode::kFailedPrecondition) ==
        "pipeline.stages: the number of stages is 5, expected at most 4, the "
        "number of layers of chain; use fewer stages");
}

TEST_CASE("planning: without a usable device the reasons are given") {
  v1::Topology topology = Cluster(1, 1);
  topology.mutable_nodes(0)->mutable_devices(0)->set_usable(false);
  topology.mutable_nodes(0)->mutable_devices(0)->set_unusable_reason("no core");
  CHECK(Refusal(PlanOf(SpecOf(), {1, 1}, topology),
                absl::StatusCode::kFailedPrecondition) ==
        "plan: the number of usable devices is 0, expected 1 or more; not "
        "usable: n1/cpu:0 (no core)");
}

TEST_CASE(
    "planning: a stage that no device can hold is refused with the bytes") {
  const v1::Graph graph = ChainGraph(4);
  const v1::Profile profile = ProfileOf(graph, List(4, 1), int64_t{1} << 20);
  v1::Topology topology = Cluster(1, 2);
  for (v1::Device& device : *topology.mutable_nodes(0)->mutable_devices()) {
    device.set_memory_bytes(int64_t{3} << 20);
  }
  CHECK(Refusal(PlanJob(SpecOf(2), graph, profile, topology, {}),
                absl::StatusCode::kFailedPrecondition) ==
        "plan: stage 0 on n1/cpu:0 needs 10.0 MiB with 2 weight versions and "
        "2 units in flight, expected at most 3.0 MiB; tried in vain: "
        "pipeline.in_flight 1, batch.minibatch 1, schedule flush with 4 "
        "microbatches");
  // With room for that the same plan goes through, limits shown.
  for (v1::Device& device : *topology.mutable_nodes(0)->mutable_devices()) {
    device.set_memory_bytes(int64_t{10} << 20);
  }
  const auto plan = PlanJob(SpecOf(2), graph, profile, topology, {});
  REQUIRE(plan.ok());
  CHECK(plan->stages(0).total_bytes() == int64_t{10} << 20);
  CHECK(plan->stages(0).stash_bytes() == int64_t{2} << 20);
  CHECK(plan->stages(0).limit_bytes() == int64_t{10} << 20);
}

TEST_CASE("planning: memory moves the cuts before it makes a job infeasible") {
  const v1::Graph graph = ChainGraph(4);
  v1::Profile profile = ProfileOf(graph, {1, 1, 1, 5});
  for (v1::LayerProfile& layer : *profile.mutable_layers()) {
    layer.set_parameter_bytes(int64_t{1} << 20);
  }
  v1::Topology topology = Cluster(1, 2);
  for (v1::Device& device : *topology.mutable_nodes(0)->mutable_devices()) {
    device.set_memory_bytes(int64_t{6} << 20);
  }
  // 0-2 and 3 would be best, but stage 0 holds two versions and gradients.
  const auto plan = PlanJob(SpecOf(2), graph, profile, topology, {});
  REQUIRE(plan.ok());
  CHECK(CutsText(*plan) == "0-1x1 2-3x1");
}

TEST_CASE("planning: in_flight is read, auto is noam, nonsense is refused") {
  v1::JobSpec spec = SpecOf(4);
  for (const auto& [text, in_flight] : std::vector<std::pair<std::string, int>>{
           {"", 4}, {"noam", 4}, {"auto", 4}, {"1", 1}, {"2", 2}, {"7", 7}}) {
    spec.mutable_pipeline()->set_in_flight(text);
    const auto plan = PlanOf(spec, List(4, 1), Cluster(1, 4));
    REQUIRE(plan.ok());
    CHECK(plan->in_flight() == in_flight);
  }
  spec.mutable_pipeline()->set_in_flight("many");
  CHECK(Refusal(PlanOf(spec, List(4, 1), Cluster(1, 4)),
                absl::StatusCode::kInvalidArgument) ==
        "pipeline.in_flight: the value is \"many\", expected noam, auto, or 1 "
        "to 65536");
}

// What a detection network looks like: two branches of the input, joined, and
// two heads, with a loss over both or with none.
TEST_CASE("planning: branches and two heads are planned, every layer once") {
  for (const bool loss : {false, true}) {
    v1::Profile profile;
    profile.set_batch(8);
    const auto add = [&profile](const char* name, double seconds,
                                std::vector<std::string> inputs) {
      v1::LayerProfile* layer = profile.add_layers();
      layer->set_name(name);
      layer->set_forward_seconds(seconds / 3);
      layer->set_backward_seconds(seconds * 2 / 3);
      layer->set_output_bytes(4000);
      layer->set_parameter_bytes(1000);
      for (std::string& input : inputs) layer->add_inputs(std::move(input));
    };
    add("left", 3, {"x"});
    add("right", 3, {"x"});
    add("join", 1, {"left", "right"});
    add("box", 4, {"join"});
    add("class", 2, {"join"});
    if (loss) add("loss", 1, {"box", "class", "y"});
    const auto graph = GraphOfProfile(profile);
    REQUIRE(graph.ok());
    for (const int stages : {0, 1, 2, 3}) {
      CAPTURE(loss, stages);
      const auto plan =
          PlanJob(SpecOf(stages), *graph, profile, Cluster(3, 1), {});
      INFO(plan.status().ToString());
      REQUIRE(plan.ok());
      if (stages > 0) CHECK(plan->stages_size() == stages);
      std::vector<std::string> layers;
      double seconds = 0;
      for (const v1::PlanStage& stage : plan->stages()) {
        layers.insert(layers.end(), stage.layers().begin(),
                      stage.layers().end());
        seconds += stage.forward_seconds() + stage.backward_seconds();
      }
      std::sort(layers.begin(), layers.end());
      std::vector<std::string> all = {"box", "class", "join", "left", "right"};
      if (loss) all.insert(all.begin() + 4, "loss");
      std::sort(all.begin(), all.end());
      CHECK(layers == all);
      CHECK(seconds == Approx(loss ? 14 : 13));
      // Two stages: both branches, then join and heads, or join before the cut.
      if (stages == 2) {
        CHECK(plan->predicted_step_ms() < 1000 * (loss ? 8.1 : 7.1));
      }
    }
  }
}

TEST_CASE("planning: the same arguments give the same plan") {
  const List seconds = {3, 1, 4, 1, 5, 9, 2, 6};
  const auto first = PlanOf(SpecOf(), seconds, Cluster(3, 2, 1));
  const auto second = PlanOf(SpecOf(), seconds, Cluster(3, 2, 1));
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(google::protobuf::util::MessageDifferencer::Equals(*first, *second));
}

TEST_CASE("planning: unknown models, schedules and pairs are refused") {
  PlanningOptions options;
  options.cost_model = "magic";
  CHECK(PlanOf(SpecOf(), {1}, Cluster(1, 1), options).status().code() ==
        absl::StatusCode::kNotFound);
  v1::JobSpec spec = SpecOf();
  spec.mutable_pipeline()->set_weights("flush");
  CHECK_FALSE(PlanOf(spec, {1}, Cluster(1, 1)).ok());
  spec = SpecOf();
  spec.mutable_batch()->set_microbatches(2);
  CHECK_FALSE(PlanOf(spec, {1}, Cluster(1, 1)).ok());
  spec = SpecOf();
  spec.mutable_batch()->set_minibatch(0);
  CHECK_FALSE(PlanOf(spec, {1}, Cluster(1, 1)).ok());
}

// ---- placement
// ---------------------------------------------------------------

std::string SeatsText(const v1::Placement& placement) {
  std::string text;
  for (const v1::Seat& seat : placement.seats()) {
    text += (text.empty() ? "" : " ") + std::string("s") +
            std::to_string(seat.stage()) + "r" +
            std::to_string(seat.replica()) + "=" + seat.node() + "/" +
            seat.device();
  }
  return text;
}

TEST_CASE("placement: the devices that the plan names are the seats") {
  const auto plan = PlanOf(SpecOf(4), List(4, 1), Cluster(2, 2));
  REQUIRE(plan.ok());
  const auto placement = Place(*plan, Cluster(2, 2), {});
  REQUIRE(placement.ok());
  CHECK(SeatsText(*placement) ==
        "s0r0=n1/cpu:0 s1r0=n1/cpu:1 s2r0=n2/cpu:0 s3r0=n2/cpu:1");
}

TEST_CASE("placement: stage 0 moves to a node that has the data") {
  const auto plan = PlanOf(SpecOf(4), List(4, 1), Cluster(2, 2));
  const auto placement = Place(*plan, Cluster(2, 2), {"n2"});
  REQUIRE(placement.ok());
  CHECK(SeatsText(*placement) ==
        "s0r0=n2/cpu:0 s1r0=n2/cpu:1 s2r0=n1/cpu:0 s3r0=n1/cpu:1");
  PlanningOptions options;
  options.data_nodes = {"n2"};
  const auto aware = PlanOf(SpecOf(4), List(4, 1), Cluster(2, 2), options);
  CHECK(DevicesText(*aware) == "n2/cpu:0 n2/cpu:1 n1/cpu:0 n1/cpu:1");
}

TEST_CASE(
    "placement: a bare plan gets seats, a plan of lost devices does not") {
  v1::Plan plan = *PlanOf(SpecOf(3), List(3, 1), Cluster(3, 1));
  CHECK(Place(plan, Cluster(2, 1), {}).status().message() ==
        "placement: stage 2: its device is \"n3/cpu:0\", expected a usable "
        "device of the cluster; plan the job again");
  for (v1::PlanStage& stage : *plan.mutable_stages()) stage.clear_devices();
  CHECK(Place(plan, Cluster(3, 1), {}).ok());
  CHECK(Place(plan, Cluster(2, 1), {}).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  CHECK_FALSE(Place({}, Cluster(1, 1), {}).ok());
}

}  // namespace
}  // namespace pipework
