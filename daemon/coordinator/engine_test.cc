// The engine against scripted nodes and a fake clock: whole lives of jobs
// without a process, a socket or a thread.
#include "daemon/coordinator/engine.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/coordinator/job_store.h"
#include "daemon/coordinator/scripted_node.h"
#include "daemon/spec/data_facts.h"
#include "daemon/spec/spec.h"
#include "kernels/tensor.h"
#include "scheduler/planning/planning.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

std::string TempFolder() {
  std::string name = "/tmp/pwengineXXXXXX";
  REQUIRE(mkdtemp(&name[0]) != nullptr);
  return name;
}

// An engine and its nodes; messages go to and fro until nobody has any.
class World : public EngineHost {
 public:
  World() : folder_(TempFolder()) { StartEngine(); }
  ~World() override { fs::remove_all(folder_); }

  // As after kill -9: everything in memory is gone.
  void RestartEngine() {
    engine_.reset();
    board_.reset();
    sessions_.clear();
    work_.clear();
    inbox_.clear();
    StartEngine();
  }

  ScriptedNode& AddNode(ScriptedNode::Options options) {
    nodes_.push_back(std::make_unique<ScriptedNode>(options));
    Connect(*nodes_.back());
    return *nodes_.back();
  }

  void Connect(ScriptedNode& node) {
    auto session = engine_->OnHello(node.Hello(), clock_.Now());
    REQUIRE(session.ok());
    sessions_[node.name()] = session->id;
    v1::CoordinatorMessage welcome;
    *welcome.mutable_welcome() = session->welcome;
    node.Handle(welcome);
    engine_->SessionOpen(node.name(), session->id);
    for (const v1::NodeMessage& message : node.Unacknowledged()) {
      Say(node, message);
    }
    Pump();
  }
  void Disconnect(ScriptedNode& node) {
    const uint64_t session = sessions_[node.name()];
    sessions_.erase(node.name());
    engine_->OnClosed(node.name(), session);
  }

  void Say(ScriptedNode& node, const v1::NodeMessage& message) {
    const auto session = sessions_.find(node.name());
    if (session == sessions_.end()) return;
    engine_->OnMessage(node.name(), session->second, message, clock_.Now());
  }

  // A tick, and what is waiting.
  void Step() {
    engine_->Tick();
    auto work = std::move(work_);
    work_.clear();
    for (const auto& job : work) job()();
    auto inbox = std::move(inbox_);
    inbox_.clear();
    for (const auto& [name, message] : inbox) {
      for (const auto& node : nodes_) {
        if (node->name() != name) continue;
        for (const auto& reply : node->Handle(message)) Say(*node, reply);
      }
    }
  }

  // Everything that is due, and a tick after each round.
  void Pump() {
    int idle = 0;
    for (int round = 0; round < 200; ++round) {
      engine_->Tick();
      while (!work_.empty()) {
        auto work = std::move(work_.front());
        work_.pop_front();
        work()();
      }
      if (inbox_.empty()) {
        clock_.Advance(absl::Milliseconds(20));
        engine_->Tick();
        // What a commit makes durable is acted on one tick later.
        if (inbox_.empty() && work_.empty() && ++idle == 4) return;
      } else {
        idle = 0;
      }
      auto inbox = std::move(inbox_);
      inbox_.clear();
      for (const auto& [name, message] : inbox) {
        for (const auto& node : nodes_) {
          if (node->name() != name) continue;
          for (const auto& reply : node->Handle(message)) Say(*node, reply);
        }
      }
    }
    FAIL("the engine and its nodes do not come to rest");
  }

  void Heartbeats() {
    v1::NodeMessage heartbeat;
    heartbeat.set_heartbeat(true);
    for (const auto& node : nodes_) Say(*node, heartbeat);
  }
  // Time passes with heartbeats.
  void Pass(absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= absl::Seconds(1)) {
      clock_.Advance(std::min(time, absl::Duration(absl::Seconds(1))));
      Heartbeats();
      Pump();
    }
  }

  v1::Job Submit(const v1::JobSpec& spec, const std::string& request = "",
                 bool wait_for_capacity = false) {
    NewJob fresh = Prepare(spec, request, wait_for_capacity);
    auto job = engine_->Create(fresh);
    REQUIRE(job.ok());
    return *job;
  }
  NewJob Prepare(const v1::JobSpec& spec, const std::string& request = "",
                 bool wait_for_capacity = false) {
    NewJob fresh;
    *fresh.request.mutable_spec() = spec;
    fresh.request.set_request_id(request);
    fresh.request.set_wait_for_capacity(wait_for_capacity);
    fresh.request_hash = spec.SerializeAsString();
    auto graph = GraphOf(spec, EndsOf(ScriptedFacts()));
    REQUIRE(graph.ok());
    fresh.graph = *graph;
    fresh.facts = ScriptedFacts();
    fresh.id = NewJobId();
    fresh.total_steps = 20;
    return fresh;
  }
  v1::Job Job(const std::string& id) {
    auto job = board_->Find(id, true);
    REQUIRE(job.ok());
    return **job;
  }
  v1::JobState State(const std::string& id) { return Job(id).state(); }
  std::vector<std::string> Events(const std::string& id) {
    auto reader = JobStoreReader::Open(folder_);
    REQUIRE(reader.ok());
    auto events = (*reader)->Events(id);
    REQUIRE(events.ok());
    std::vector<std::string> types;
    for (const v1::JobEvent& event : *events) types.push_back(event.type());
    return types;
  }

  Engine& engine() { return *engine_; }
  FakeClock& clock() { return clock_; }
  ScriptedNode& node(int i) { return *nodes_[static_cast<size_t>(i)]; }
  const std::string& folder() const { return folder_; }

 private:
  void StartEngine() {
    board_ = std::make_unique<JobBoard>(clock_);
    auto writer = JobWriter::Open(folder_);
    REQUIRE(writer.ok());
    EngineOptions options;
    options.state_dir = folder_;
    engine_ = std::make_unique<Engine>(options, clock_, *std::move(writer),
                                       this, board_.get());
    REQUIRE(engine_->Load().ok());
  }

  void Send(const std::string& node, uint64_t session,
            const v1::CoordinatorMessage& message) override {
    const auto it = sessions_.find(node);
    if (it != sessions_.end() && it->second == session) {
      inbox_.push_back({node, message});
    }
  }
  void CloseSession(const std::string& node, uint64_t) override {
    sessions_.erase(node);
  }
  void Work(std::function<std::function<void()>()> job) override {
    work_.push_back(std::move(job));
  }

  const std::string folder_;
  FakeClock clock_;
  std::vector<std::unique_ptr<ScriptedNode>> nodes_;
  std::map<std::string, uint64_t> sessions_;
  std::deque<std::function<std::function<void()>()>> work_;
  std::vector<std::pair<std::string, v1::CoordinatorMessage>> inbox_;
  std::unique_ptr<JobBoard> board_;
  std::unique_ptr<Engine> engine_;
};

ScriptedNode::Options Named(const std::string& name) {
  ScriptedNode::Options options;
  options.name = name;
  return options;
}

// The index of the node that leads a job.
int Leader(World& world, const std::string& id) {
  return LeaderNode(world.Job(id).placement()) == world.node(0).name() ? 0 : 1;
}

TEST_CASE("engine: a job goes from submit to success through every state") {
  World world;
  world.AddNode(Named("n1"));
  world.AddNode(Named("n2"));
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  REQUIRE(world.State(id) == v1::RUNNING);
  v1::Job job = world.Job(id);
  CHECK(job.plan().stages_size() == 4);
  CHECK(job.placement().seats_size() == 4);
  CHECK(job.attempts_size() == 1);
  const int leader = Leader(world, id);

  world.Say(world.node(leader), world.node(leader).Progress(id, 1, 5, 5));
  world.Pump();
  CHECK(world.Job(id).step() == 5);
  CHECK(world.Job(id).loss() == Approx(0.2));

  for (int i : {0, 1}) {
    world.Say(world.node(i), world.node(i).Finished(id, 1, i == leader));
    world.Say(world.node(i), world.node(i).Gone(id, 1, 0));
  }
  world.Pump();
  job = world.Job(id);
  CHECK(job.state() == v1::SUCCEEDED);
  CHECK(job.test_accuracy() == Approx(0.99));
  CHECK(job.attempts(0).end() == "SUCCEEDED");

  auto reader = JobStoreReader::Open(world.folder());
  REQUIRE(reader.ok());
  std::vector<std::string> states;
  const auto events = (*reader)->Events(id);
  REQUIRE(events.ok());
  for (const v1::JobEvent& event : *events) {
    if (event.type() != "STATE") continue;
    states.push_back(event.text().substr(0, event.text().find_first_of(" :")));
  }
  CHECK(states == std::vector<std::string>{"QUEUED", "PROFILING", "RESERVING",
                                           "STARTING", "RUNNING", "SUCCEEDED"});
  const auto steps = (*reader)->Steps(id);
  REQUIRE(steps.ok());
  CHECK(steps->size() == 5);
}

TEST_CASE(
    "engine: jobs run first come first served, and say what they wait for") {
  World world;
  world.AddNode(Named("n1"));
  const std::string first = world.Submit(ScriptedSpec("a", 2)).id();
  const std::string second = world.Submit(ScriptedSpec("b", 2)).id();
  const std::string third = world.Submit(ScriptedSpec("c", 1)).id();
  world.Pump();
  CHECK(world.State(first) == v1::RUNNING);
  v1::Job job = world.Job(second);
  CHECK(job.state() == v1::QUEUED);
  CHECK(job.reason() == "DEVICES_BUSY");
  CHECK(job.message().find(first) != std::string::npos);
  CHECK(world.Job(third).reason() == "QUEUED_BEHIND");

  world.Say(world.node(0), world.node(0).Finished(first, 1, true));
  world.Say(world.node(0), world.node(0).Gone(first, 1, 0));
  world.Pump();
  CHECK(world.State(first) == v1::SUCCEEDED);
  CHECK(world.State(second) == v1::RUNNING);
  CHECK(world.State(third) == v1::QUEUED);
}

TEST_CASE("engine: the same request makes one job, another body is refused") {
  World world;
  world.AddNode(Named("n1"));
  const v1::Job first = world.Submit(ScriptedSpec("a", 1), "request-1");
  const v1::Job again = world.Submit(ScriptedSpec("a", 1), "request-1");
  CHECK(first.id() == again.id());
  auto other =
      world.engine().Create(world.Prepare(ScriptedSpec("b", 1), "request-1"));
  CHECK(other.status().code() == absl::StatusCode::kAlreadyExists);
  // A restart remembers it too.
  world.RestartEngine();
  auto known = world.engine().FindRequest(
      "request-1", ScriptedSpec("a", 1).SerializeAsString());
  REQUIRE(known.ok());
  REQUIRE(*known != nullptr);
  CHECK((*known)->id() == first.id());
}

TEST_CASE("engine: a profile is measured once for each graph and device kind") {
  World world;
  world.AddNode(Named("n1"));
  world.AddNode(Named("n2"));
  for (int i = 0; i < 2; ++i) {
    const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
    world.Pump();
    v1::CancelJobRequest cancel;
    cancel.set_job(id);
    cancel.set_now(true);
    REQUIRE(world.engine().Cancel(cancel).ok());
    world.Pump();
    CHECK(world.State(id) == v1::CANCELLED);
  }
  const auto kind = v1::CoordinatorMessage::kRunProfile;
  CHECK(world.node(0).CountSeen(kind) + world.node(1).CountSeen(kind) == 1);
}

// What the store keeps for the scripted job on a kind of device.
std::string ProfileKey(const std::string& kind) {
  auto graph = GraphOf(ScriptedSpec("a", 2), EndsOf(ScriptedFacts()));
  REQUIRE(graph.ok());
  return ProfileStore::KeyOf(ScriptedSpec("a", 2), *graph, kind);
}

TEST_CASE("engine: a profile that is there is used, and said so") {
  World world;
  world.AddNode(Named("n1"));
  const std::string first = world.Submit(ScriptedSpec("a", 1)).id();
  world.Pump();
  const std::vector<std::string> events = world.Events(first);
  CHECK(std::count(events.begin(), events.end(), "PROFILE_REUSED") == 0);
  // It outlives the coordinator.
  world.RestartEngine();
  world.Connect(world.node(0));
  const std::string second = world.Submit(ScriptedSpec("a", 1)).id();
  world.Pump();
  REQUIRE(world.State(second) == v1::RUNNING);
  auto reader = JobStoreReader::Open(world.folder());
  REQUIRE(reader.ok());
  const auto told = (*reader)->Events(second);
  REQUIRE(told.ok());
  std::string text;
  for (const v1::JobEvent& event : *told) {
    if (event.type() == "PROFILE_REUSED") text = event.text();
  }
  CHECK(text == absl::StrCat("profile ",
                             ProfileStore::IdOf(ProfileKey("cpu x1 test")),
                             ": of unknown age, measured on n1/cpu:0 "
                             "(cpu x1 test)"));
  CHECK(world.node(0).CountSeen(v1::CoordinatorMessage::kRunProfile) == 1);
}

TEST_CASE("engine: each kind of device is profiled, one at a time on a node") {
  World world;
  ScriptedNode::Options mixed = Named("n1");
  mixed.devices = 3;
  mixed.kinds = {"cpu x1 fast", "cpu x1 slow"};
  mixed.answers_profile = false;
  world.AddNode(mixed);
  ScriptedNode::Options plain = Named("n2");
  plain.kinds = {"cpu x1 fast", "cpu x1 other"};
  world.AddNode(plain);
  const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
  world.Pump();
  // The second one waits for the node's first.
  CHECK(world.node(0).CountSeen(v1::CoordinatorMessage::kRunProfile) == 1);
  CHECK(world.node(1).CountSeen(v1::CoordinatorMessage::kRunProfile) == 1);
  v1::NodeMessage answer;
  for (const v1::CoordinatorMessage& seen : world.node(0).seen) {
    if (!seen.has_run_profile()) continue;
    const auto profile = EstimateProfile(seen.run_profile().graph(), 32);
    REQUIRE(profile.ok());
    answer.mutable_answer()->set_command(seen.command());
    *answer.mutable_answer()->mutable_profile() = *profile;
  }
  world.node(0).options().answers_profile = true;
  world.Say(world.node(0), answer);
  world.Pump();
  CHECK(world.State(id) == v1::RUNNING);
  CHECK(world.node(0).CountSeen(v1::CoordinatorMessage::kRunProfile) == 2);
  const ProfileStore store(world.folder());
  for (const char* kind : {"cpu x1 fast", "cpu x1 slow", "cpu x1 other"}) {
    CAPTURE(kind);
    const auto kept = store.Read(ProfileKey(kind));
    REQUIRE(kept.ok());
    CHECK(kept->device_kind() == kind);
  }
  CHECK(store.Read(ProfileKey("cpu x1 other"))->measured_on() == "n2/cpu:1");
}

TEST_CASE(
    "engine: a noisy profile is measured once more, elsewhere if it can") {
  World world;
  int noisy = 0;
  SECTION("the second one is calm") { noisy = 1; }
  SECTION("so is the second one") { noisy = 9; }
  ScriptedNode::Options first = Named("n1");
  first.noisy_profiles = noisy;
  world.AddNode(first);
  ScriptedNode::Options other = Named("n2");
  other.noisy_profiles = noisy == 9 ? 9 : 0;
  world.AddNode(other);
  const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
  world.Pump();
  REQUIRE(world.State(id) == v1::RUNNING);
  const auto kind = v1::CoordinatorMessage::kRunProfile;
  CHECK(world.node(0).CountSeen(kind) == 1);
  CHECK(world.node(1).CountSeen(kind) == 1);
  const std::vector<std::string> events = world.Events(id);
  CHECK(std::count(events.begin(), events.end(), "PROFILE_NOISY") ==
        (noisy == 9 ? 2 : 1));
  const ProfileStore store(world.folder());
  const auto kept = store.Read(ProfileKey("cpu x1 test"));
  REQUIRE(kept.ok());
  CHECK(kept->noisy() == (noisy == 9));
}

TEST_CASE(
    "engine: a noisy profile that was kept is measured again before use") {
  World world;
  ScriptedNode::Options noisy = Named("n1");
  noisy.noisy_profiles = 2;
  world.AddNode(noisy);
  const auto kind = v1::CoordinatorMessage::kRunProfile;
  const std::string first = world.Submit(ScriptedSpec("a", 1)).id();
  world.Pump();
  CHECK(world.node(0).CountSeen(kind) == 2);
  const std::string second = world.Submit(ScriptedSpec("a", 1)).id();
  world.Pump();
  CHECK(world.State(second) == v1::RUNNING);
  CHECK(world.node(0).CountSeen(kind) == 3);
  const ProfileStore store(world.folder());
  CHECK_FALSE(store.Read(ProfileKey("cpu x1 test"))->noisy());
}

TEST_CASE("engine: links between nodes are measured once and kept") {
  World world;
  world.AddNode(Named("n1"));
  world.AddNode(Named("n2"));
  CHECK(world.engine().WholeTopology().link_bytes_per_second() == 3e9);
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  REQUIRE(world.State(id) == v1::RUNNING);
  const auto look = [&world] {
    const v1::Topology whole = world.engine().WholeTopology();
    REQUIRE(whole.links_size() == 1);
    CHECK(whole.links(0).a() == "n1");
    CHECK(whole.links(0).b() == "n2");
    CHECK(whole.links(0).measured());
    CHECK(whole.links(0).bytes_per_second() == 2e9);
    CHECK(whole.link_bytes_per_second() == 2e9);
    CHECK(whole.link_latency_seconds() == 20e-6);
  };
  look();
  world.RestartEngine();
  world.Connect(world.node(0));
  world.Connect(world.node(1));
  look();
  CHECK(world.node(0).CountSeen(v1::CoordinatorMessage::kListenLinks) == 1);
  CHECK(world.node(1).CountSeen(v1::CoordinatorMessage::kMeasureLinks) == 1);
}

TEST_CASE("engine: links that cannot be measured hinder no job") {
  World world;
  ScriptedNode::Options stubborn = Named("n1");
  stubborn.measures_links = false;
  world.AddNode(stubborn);
  world.AddNode(Named("n2"));
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  CHECK(world.State(id) == v1::RUNNING);
  CHECK(world.engine().WholeTopology().links_size() == 0);
  CHECK(world.engine().WholeTopology().link_bytes_per_second() == 3e9);
  // Those that listen are told to end.
  CHECK(world.node(1).CountSeen(v1::CoordinatorMessage::kKillRunner) == 1);
}

TEST_CASE("engine: a profile on request takes a free device of each kind") {
  World world;
  ScriptedNode::Options mixed = Named("n1");
  mixed.kinds = {"cpu x1 fast", "cpu x1 slow"};
  world.AddNode(mixed);
  const NewJob job = world.Prepare(ScriptedSpec("a", 2));
  absl::StatusOr<v1::RunProfileResponse> answer = absl::UnknownError("none");
  const auto run = [&](const std::string& kind, bool again) {
    answer = absl::UnknownError("none");
    world.engine().RunProfile(
        job.request.spec(), job.graph, kind, again,
        [&](absl::StatusOr<v1::RunProfileResponse> got) { answer = got; });
    world.Pump();
  };
  run("", false);
  REQUIRE(answer.ok());
  REQUIRE(answer->profiles_size() == 2);
  CHECK(answer->profiles(0).profile().device_kind() == "cpu x1 fast");
  CHECK(answer->profiles(1).profile().device_kind() == "cpu x1 slow");
  CHECK_FALSE(answer->profiles(0).reused());
  CHECK(answer->profiles(0).id() ==
        ProfileStore::IdOf(ProfileKey("cpu x1 fast")));
  // Its devices are free again, and what is known is found.
  run("cpu x1 slow", false);
  REQUIRE(answer.ok());
  REQUIRE(answer->profiles_size() == 1);
  CHECK(answer->profiles(0).reused());
  run("cpu x1 slow", true);
  REQUIRE(answer.ok());
  CHECK_FALSE(answer->profiles(0).reused());
  run("cpu x9", false);
  CHECK(absl::IsNotFound(answer.status()));
  CHECK(answer.status().message() ==
        "profile: device kind is \"cpu x9\", expected one of cpu x1 fast, cpu "
        "x1 slow");
  // A job has them all.
  const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
  world.Pump();
  REQUIRE(world.State(id) == v1::RUNNING);
  run("", false);
  CHECK(answer.ok());
  run("", true);
  CHECK(absl::IsFailedPrecondition(answer.status()));
  CHECK(std::string(answer.status().message()).find(id) != std::string::npos);
}

TEST_CASE("engine: cancel works in every state and twice") {
  struct Case {
    v1::JobState state;
    std::function<void(ScriptedNode::Options*)> set_up;
  };
  const Case cases[] = {
      {v1::QUEUED, [](ScriptedNode::Options* o) { o->devices = 1; }},
      {v1::PROFILING,
       [](ScriptedNode::Options* o) { o->answers_profile = false; }},
      {v1::RESERVING, [](ScriptedNode::Options* o) { o->gets_ready = false; }},
      {v1::STARTING, [](ScriptedNode::Options* o) { o->gets_running = false; }},
      {v1::RUNNING, [](ScriptedNode::Options*) {}},
  };
  for (const Case& each : cases) {
    CAPTURE(v1::JobState_Name(each.state));
    World world;
    ScriptedNode::Options options = Named("n1");
    each.set_up(&options);
    world.AddNode(options);
    const std::string id =
        world.Submit(ScriptedSpec("a", 2), "", /*wait=*/true).id();
    world.Pump();
    REQUIRE(world.State(id) == each.state);
    v1::CancelJobRequest cancel;
    cancel.set_job(id);
    auto cancelled = world.engine().Cancel(cancel);
    REQUIRE(cancelled.ok());
    CHECK((cancelled->state() == v1::CANCELLING ||
           cancelled->state() == v1::CANCELLED));
    world.Pump();
    CHECK(world.State(id) == v1::CANCELLED);
    CHECK(world.engine().Cancel(cancel).ok());
    CHECK(world.node(0).runners.empty());
    // The devices are free: the next job runs at once.
    world.node(0).options() = Named("n1");
    if (each.state != v1::QUEUED) {
      const std::string next = world.Submit(ScriptedSpec("b", 2)).id();
      world.Pump();
      CHECK(world.State(next) == v1::RUNNING);
    }
  }
}

TEST_CASE("engine: a cancel reaches its end though a runner obeys nothing") {
  World world;
  ScriptedNode::Options options = Named("n1");
  options.obeys_stop = false;
  world.AddNode(options);
  const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
  world.Pump();
  v1::CancelJobRequest cancel;
  cancel.set_job(id);
  cancel.set_grace_seconds(3);
  REQUIRE(world.engine().Cancel(cancel).ok());
  world.Pump();
  CHECK(world.State(id) == v1::CANCELLING);
  world.Pass(absl::Seconds(4));
  CHECK(world.State(id) == v1::CANCELLED);
}

TEST_CASE("engine: cancelling what is not there says so") {
  World world;
  v1::CancelJobRequest cancel;
  cancel.set_job("j-nobody");
  CHECK(absl::IsNotFound(world.engine().Cancel(cancel).status()));
}

TEST_CASE(
    "engine: a killed runner is the first cause, whatever its peers say") {
  World world;
  world.AddNode(Named("n1"));
  world.AddNode(Named("n2"));
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  // The peer speaks first.
  world.Say(world.node(1),
            world.node(1).Ended(id, 1, 14, "PEER_LOST",
                                "stage 2: stage 1 is gone", false));
  world.Say(world.node(0), world.node(0).Gone(id, 1, SIGKILL));
  world.Say(world.node(1), world.node(1).Gone(id, 1, 256));
  world.Pump();
  world.Pass(absl::Seconds(1));
  const v1::Job job = world.Job(id);
  CHECK(job.state() == v1::FAILED);
  CHECK(job.reason() == "RUNNER_KILLED");
  CHECK(job.message().find("node n1") != std::string::npos);
  CHECK(job.message().find("signal 9") != std::string::npos);
  CHECK(job.attempts(0).end() == "FAILED");
}

TEST_CASE("engine: a runner's own error stands before its peers' complaints") {
  World world;
  world.AddNode(Named("n1"));
  world.AddNode(Named("n2"));
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  world.Say(world.node(0), world.node(0).Ended(id, 1, 14, "PEER_LOST",
                                               "stage 2 is gone", false));
  world.clock().Advance(absl::Milliseconds(200));
  world.Say(world.node(1), world.node(1).Ended(id, 1, 8, "OUT_OF_MEMORY",
                                               "stage 2: wanted 3 GiB", true));
  world.Pass(absl::Seconds(1));
  world.Say(world.node(0), world.node(0).Gone(id, 1, 256));
  world.Say(world.node(1), world.node(1).Gone(id, 1, 256));
  world.Pass(absl::Seconds(1));
  CHECK(world.State(id) == v1::FAILED);
  CHECK(world.Job(id).reason() == "OUT_OF_MEMORY");
}

TEST_CASE(
    "engine: an attempt that breaks ends within 15 s though a node is deaf") {
  World world;
  world.AddNode(Named("n1"));
  ScriptedNode::Options deaf = Named("n2");
  deaf.obeys_stop = false;
  world.AddNode(deaf);
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  const absl::Time begin = world.clock().Now();
  world.Say(world.node(0), world.node(0).Gone(id, 1, SIGKILL));
  world.Pump();
  while (world.State(id) == v1::RUNNING &&
         world.clock().Now() - begin < absl::Seconds(20)) {
    world.Pass(absl::Seconds(1));
  }
  CHECK(world.State(id) == v1::FAILED);
  CHECK(world.clock().Now() - begin < absl::Seconds(15));
}

TEST_CASE(
    "engine: a killed daemon fails its job, and the next attempt runs on what "
    "is left") {
  World world;
  for (const char* name : {"n1", "n2"}) {
    ScriptedNode::Options options = Named(name);
    options.devices = 1;
    world.AddNode(options);
  }
  v1::JobSpec spec = ScriptedSpec("a", 2);
  spec.mutable_restart()->set_max(1);
  const std::string id = world.Submit(spec).id();
  world.Pump();
  REQUIRE(world.State(id) == v1::RUNNING);
  // Both nodes take part, or the test would prove nothing.
  REQUIRE(world.node(0).runners.size() == 1);
  REQUIRE(world.node(1).runners.size() == 1);
  world.Disconnect(world.node(1));
  world.Pass(absl::Seconds(5));
  const v1::Job job = world.Job(id);
  CHECK(job.state() == v1::RUNNING);
  CHECK(job.attempt() == 2);
  REQUIRE(job.attempts_size() == 2);
  CHECK(job.attempts(0).cause().find("node n2") != std::string::npos);
  for (const v1::Seat& seat : job.placement().seats()) {
    CHECK(seat.node() == "n1");
  }
}

TEST_CASE(
    "engine: a job of four stages goes on with two where two devices are "
    "left") {
  World world;
  world.AddNode(Named("n1"));
  world.AddNode(Named("n2"));
  v1::JobSpec spec = ScriptedSpec("a", 4);
  spec.mutable_restart()->set_max(1);
  const std::string id = world.Submit(spec).id();
  world.Pump();
  REQUIRE(world.Job(id).plan().stages_size() == 4);
  world.Disconnect(world.node(1));
  world.Pass(absl::Seconds(5));
  const v1::Job job = world.Job(id);
  CHECK(job.state() == v1::RUNNING);
  CHECK(job.plan().stages_size() <= 2);
  const auto events = world.Events(id);
  CHECK(std::count(events.begin(), events.end(), "FEWER_STAGES") == 1);
}

TEST_CASE("engine: restarts are counted, and a missed target is not retried") {
  World world;
  world.AddNode(Named("n1"));
  v1::JobSpec spec = ScriptedSpec("a", 2);
  spec.mutable_restart()->set_max(2);
  const std::string id = world.Submit(spec).id();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    world.Pump();
    REQUIRE(world.State(id) == v1::RUNNING);
    REQUIRE(world.Job(id).attempt() == attempt);
    world.Say(world.node(0), world.node(0).Gone(id, attempt, SIGSEGV));
    world.Pass(absl::Seconds(1));
  }
  CHECK(world.State(id) == v1::FAILED);
  CHECK(world.Job(id).attempts_size() == 3);

  const std::string other = world.Submit(spec).id();
  world.Pump();
  world.Say(world.node(0), world.node(0).Ended(other, 1, 9, "TARGET_MISSED",
                                               "0.5 < 0.9", true));
  world.Say(world.node(0), world.node(0).Gone(other, 1, 0));
  world.Pass(absl::Seconds(1));
  CHECK(world.State(other) == v1::FAILED);
  CHECK(world.Job(other).reason() == "TARGET_MISSED");
  CHECK(world.Job(other).attempts_size() == 1);
}

TEST_CASE(
    "engine: a runner that exits 0 before the end is a fault of its own") {
  World world;
  world.AddNode(Named("n1"));
  const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
  world.Pump();
  world.Say(world.node(0), world.node(0).Gone(id, 1, 0));
  world.Pass(absl::Seconds(1));
  CHECK(world.State(id) == v1::FAILED);
  CHECK(world.Job(id).reason() == "RUNNER_EXITED_EARLY");
}

TEST_CASE("engine: a start that takes too long names who is missing") {
  World world;
  world.AddNode(Named("n1"));
  ScriptedNode::Options slow = Named("n2");
  slow.gets_ready = false;
  world.AddNode(slow);
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  REQUIRE(world.State(id) == v1::RESERVING);
  world.Pass(absl::Seconds(65));
  CHECK(world.State(id) == v1::FAILED);
  CHECK(world.Job(id).reason() == "START_TIMEOUT");
  CHECK(world.Job(id).message().find("missing: n2") != std::string::npos);
}

TEST_CASE(
    "engine: a restarted coordinator takes up a running job without losing a "
    "step") {
  World world;
  world.AddNode(Named("n1"));
  world.AddNode(Named("n2"));
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  const int leader = Leader(world, id);
  ScriptedNode& node = world.node(leader);
  world.Say(node, node.Progress(id, 1, 4, 4));
  world.Pass(absl::Seconds(1));
  CHECK(node.acknowledged > 0);
  // Said while nobody listens, and once where it is lost with the engine.
  world.Say(node, node.Progress(id, 1, 6, 2));
  node.Progress(id, 1, 9, 3);
  world.RestartEngine();
  CHECK(world.State(id) == v1::RUNNING);
  for (int i : {0, 1}) world.Connect(world.node(i));
  world.Pass(absl::Seconds(1));
  CHECK(world.State(id) == v1::RUNNING);
  CHECK(world.Job(id).step() == 9);
  CHECK(world.Job(id).attempt() == 1);
  CHECK(world.node(0).runners.size() == 1);
  auto reader = JobStoreReader::Open(world.folder());
  const auto steps = (*reader)->Steps(id);
  REQUIRE(steps.ok());
  REQUIRE(steps->size() == 9);
  for (int i = 0; i < 9; ++i)
    CHECK((*steps)[static_cast<size_t>(i)].step() == i);

  for (int i : {0, 1}) {
    world.Say(world.node(i), world.node(i).Finished(id, 1, i == leader));
    world.Say(world.node(i), world.node(i).Gone(id, 1, 0));
  }
  world.Pump();
  CHECK(world.State(id) == v1::SUCCEEDED);
}

TEST_CASE("engine: after a restart every state becomes true") {
  struct Case {
    v1::JobState before;
    std::function<void(ScriptedNode::Options*)> set_up;
  };
  const Case cases[] = {
      {v1::PROFILING,
       [](ScriptedNode::Options* o) { o->answers_profile = false; }},
      {v1::RESERVING, [](ScriptedNode::Options* o) { o->gets_ready = false; }},
      {v1::STARTING, [](ScriptedNode::Options* o) { o->gets_running = false; }},
  };
  for (const Case& each : cases) {
    CAPTURE(v1::JobState_Name(each.before));
    World world;
    ScriptedNode::Options options = Named("n1");
    each.set_up(&options);
    world.AddNode(options);
    const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
    world.Pump();
    REQUIRE(world.State(id) == each.before);
    world.RestartEngine();
    const bool had_runner = !world.node(0).runners.empty();
    world.node(0).options() = Named("n1");
    // What the runner did meanwhile is kept by its daemon.
    if (each.before == v1::RESERVING) {
      v1::RunnerReport ready;
      ready.mutable_ready()->set_data_address("127.0.0.1:4001");
      world.node(0).Report(id, 1, ready);
    }
    world.Connect(world.node(0));
    world.Pass(absl::Seconds(1));
    CHECK(world.State(id) == v1::RUNNING);
    CHECK(world.Job(id).attempt() == 1);
    CHECK(had_runner == (each.before != v1::PROFILING));
  }
}

TEST_CASE(
    "engine: a job whose nodes do not come back after a restart is failed") {
  World world;
  world.AddNode(Named("n1"));
  const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
  world.Pump();
  world.RestartEngine();
  CHECK(world.State(id) == v1::RUNNING);
  for (int i = 0; i < 20; ++i) {
    world.clock().Advance(absl::Seconds(1));
    world.Pump();
  }
  CHECK(world.State(id) == v1::FAILED);
  CHECK(world.Job(id).reason() == "NODE_LOST");
  CHECK(world.Job(id).message().find("n1") != std::string::npos);
}

TEST_CASE(
    "engine: a cancel before the runners were asked for gives their devices "
    "back") {
  World world;
  world.AddNode(Named("n1"));
  world.AddNode(Named("n2"));
  // Steps of the engine between the submit and the cancel.
  for (int steps = 0; steps < 12; ++steps) {
    INFO("after " << steps << " steps");
    const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
    for (int i = 0; i < steps; ++i) world.Step();
    v1::CancelJobRequest cancel;
    cancel.set_job(id);
    cancel.set_now(true);
    REQUIRE(world.engine().Cancel(cancel).ok());
    world.Pass(absl::Seconds(1));
    CHECK(world.State(id) == v1::CANCELLED);
    // The next job, which needs all of them, runs at once.
    const std::string next = world.Submit(ScriptedSpec("b", 4)).id();
    world.Pump();
    CHECK(world.State(next) == v1::RUNNING);
    cancel.set_job(next);
    REQUIRE(world.engine().Cancel(cancel).ok());
    world.Pass(absl::Seconds(1));
    REQUIRE(world.State(next) == v1::CANCELLED);
  }
}

TEST_CASE(
    "engine: an engine that stood still blames no node for its own silence") {
  World world;
  world.AddNode(Named("n1"));
  world.AddNode(Named("n2"));
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  REQUIRE(world.State(id) == v1::RUNNING);
  world.Disconnect(world.node(1));  // its keepalive ran out meanwhile
  world.clock().Advance(absl::Seconds(60));
  world.Pump();
  CHECK(world.State(id) == v1::RUNNING);
  CHECK(world.Job(id).attempt() == 1);
  world.Disconnect(world.node(0));  // as is told only now
  world.Pass(absl::Seconds(5));     // they wait longer and longer to dial
  CHECK(world.State(id) == v1::RUNNING);
  world.Connect(world.node(0));
  world.Connect(world.node(1));
  world.Pass(absl::Seconds(5));
  CHECK(world.State(id) == v1::RUNNING);
  // Awake, it waits no longer than before.
  for (int i = 0; i < 20; ++i) {
    world.clock().Advance(absl::Seconds(1));
    world.Pump();
  }
  CHECK(world.State(id) == v1::FAILED);
}

TEST_CASE(
    "engine: a daemon that comes back as another process lost its runners") {
  World world;
  world.AddNode(Named("n1"));
  const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
  world.Pump();
  world.Disconnect(world.node(0));
  ScriptedNode::Options options = Named("n1");
  options.incarnation = 2;
  world.AddNode(options);
  world.Pass(absl::Seconds(1));
  CHECK(world.State(id) == v1::FAILED);
  CHECK(world.Job(id).reason() == "NODE_LOST");
}

TEST_CASE("engine: two daemons of one name are told apart") {
  World world;
  world.AddNode(Named("n1"));
  ScriptedNode::Options options = Named("n1");
  options.incarnation = 2;
  ScriptedNode second(options);
  auto refused = world.engine().OnHello(second.Hello(), world.clock().Now());
  CHECK(absl::IsAlreadyExists(refused.status()));
}

TEST_CASE("engine: a job that no device is left for waits, and says so") {
  World world;
  const std::string id =
      world.Submit(ScriptedSpec("a", 2), "", /*wait=*/true).id();
  world.Pump();
  CHECK(world.State(id) == v1::QUEUED);
  CHECK(world.Job(id).reason() == "NO_CAPACITY");
  CHECK(world.Job(id).message().find("needs 2 devices") != std::string::npos);
  world.AddNode(Named("n1"));
  world.Pump();
  CHECK(world.State(id) == v1::RUNNING);
}

TEST_CASE(
    "engine: where no node has the data the job fails, naming node and path") {
  World world;
  ScriptedNode::Options options = Named("n1");
  options.has_data = false;
  world.AddNode(options);
  const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
  world.Pump();
  CHECK(world.State(id) == v1::FAILED);
  CHECK(world.Job(id).reason() == "DATA_ERROR");
  CHECK(world.Job(id).message().find("node n1") != std::string::npos);
  CHECK(world.Job(id).message().find("/data/x.npy") != std::string::npos);
}

TEST_CASE("engine: stage 0 goes where the data is") {
  World world;
  ScriptedNode::Options options = Named("n1");
  options.has_data = false;
  world.AddNode(options);
  world.AddNode(Named("n2"));
  const std::string id = world.Submit(ScriptedSpec("a", 4)).id();
  world.Pump();
  REQUIRE(world.State(id) == v1::RUNNING);
  CHECK(LeaderNode(world.Job(id).placement()) == "n2");
}

// What a node and its runner do for a checkpoint of one shard.
v1::Shard PutShard(World& world, const std::string& id, int attempt,
                   int64_t step) {
  v1::Shard named;
  named.set_file("stage-0.safetensors");
  auto folder = world.engine().BeginShard(id, attempt, step, named);
  INFO(folder.status().message());
  REQUIRE(folder.ok());
  NamedTensor tensor;
  tensor.name = "fc1.weight";
  auto zeros = Tensor::Zeros(*MakeHostAllocator(0), Shape({2}), DType::kF32,
                             MemoryUse::kWeights);
  REQUIRE(zeros.ok());
  tensor.tensor = *zeros;
  auto shard = WriteShard(*folder, "stage-0.safetensors", 0, {&tensor, 1});
  INFO(shard.status().message());
  REQUIRE(shard.ok());
  REQUIRE(world.engine().ShardStored(id, attempt, step, *shard).ok());
  return *shard;
}

v1::RunnerReport CheckpointReady(const std::string& id, int64_t step) {
  v1::RunnerReport report;
  v1::Manifest* manifest = report.mutable_checkpoint()->mutable_manifest();
  manifest->set_format_version(1);
  manifest->set_job(id);
  manifest->set_attempt(1);
  manifest->set_step(step);
  manifest->set_test_accuracy(-1);
  manifest->add_shards()->set_file("stage-0.safetensors");
  return report;
}

TEST_CASE(
    "engine: a checkpoint is published when manifest and shards are there, in "
    "any order") {
  for (const bool manifest_first : {true, false}) {
    CAPTURE(manifest_first);
    World world;
    world.AddNode(Named("n1"));
    const std::string id = world.Submit(ScriptedSpec("a", 1)).id();
    world.Pump();
    const auto say = [&] {
      world.Say(world.node(0),
                world.node(0).Report(id, 1, CheckpointReady(id, 10)));
    };
    if (manifest_first) say();
    PutShard(world, id, 1, 10);
    world.Pump();
    CHECK(world.Job(id).checkpoint().empty() == !manifest_first);
    if (!manifest_first) say();
    world.Pump();
    CHECK(world.Job(id).checkpoint_step() == 10);
    CHECK(VerifyCheckpoint(world.Job(id).checkpoint()).ok());
  }
}

TEST_CASE(
    "engine: a job has succeeded only when its last checkpoint is published") {
  World world;
  world.AddNode(Named("n1"));
  const std::string id = world.Submit(ScriptedSpec("a", 1)).id();
  world.Pump();
  world.Say(world.node(0),
            world.node(0).Report(id, 1, CheckpointReady(id, 20)));
  world.Say(world.node(0), world.node(0).Finished(id, 1, true));
  world.Say(world.node(0), world.node(0).Gone(id, 1, 0));
  world.Pass(absl::Seconds(3));
  CHECK(world.State(id) == v1::RUNNING);
  SECTION("the shard comes") {
    PutShard(world, id, 1, 20);
    world.Pump();
    CHECK(world.State(id) == v1::SUCCEEDED);
  }
  SECTION("the shard comes after a restart of the coordinator") {
    world.RestartEngine();
    world.Connect(world.node(0));
    PutShard(world, id, 1, 20);
    world.Pump();
    CHECK(world.State(id) == v1::SUCCEEDED);
  }
  SECTION("the shard does not come") {
    world.Pass(absl::Minutes(3));
    CHECK(world.State(id) == v1::FAILED);
    CHECK(world.Job(id).reason() == "CHECKPOINT_LOST");
  }
}

TEST_CASE("engine: a shard that came before a restart is not asked for again") {
  World world;
  world.AddNode(Named("n1"));
  const std::string id = world.Submit(ScriptedSpec("a", 1)).id();
  world.Pump();
  PutShard(world, id, 1, 10);
  world.RestartEngine();
  world.Connect(world.node(0));
  world.Say(world.node(0),
            world.node(0).Report(id, 1, CheckpointReady(id, 10)));
  world.Pump();
  CHECK(world.Job(id).checkpoint_step() == 10);
}

TEST_CASE(
    "engine: the next attempt resumes from the newest checkpoint that is "
    "whole") {
  World world;
  world.AddNode(Named("n1"));
  v1::JobSpec spec = ScriptedSpec("a", 1);
  spec.mutable_restart()->set_max(1);
  spec.mutable_checkpoint()->set_keep(3);
  const std::string id = world.Submit(spec).id();
  world.Pump();
  for (int64_t step : {5, 10}) {
    PutShard(world, id, 1, step);
    world.Say(world.node(0),
              world.node(0).Report(id, 1, CheckpointReady(id, step)));
    world.Pump();
  }
  REQUIRE(world.Job(id).checkpoint_step() == 10);
  int64_t expected = 10;
  SECTION("the newest") {}
  SECTION("the one before, where the newest is damaged") {
    std::ofstream(world.Job(id).checkpoint() + "/stage-0.safetensors",
                  std::ios::app)
        << "rubbish";
    expected = 5;
  }
  SECTION("not one that lacks its manifest") { PutShard(world, id, 1, 15); }
  world.Say(world.node(0), world.node(0).Gone(id, 1, SIGKILL));
  world.Pass(absl::Seconds(1));
  const v1::Job job = world.Job(id);
  REQUIRE(job.attempts_size() == 2);
  CHECK(job.attempts(1).from_step() == expected);
  CHECK(job.step() == expected);
  const auto& setup = world.node(0).seen;
  int64_t told = -1;
  for (const v1::CoordinatorMessage& message : setup) {
    if (message.has_start_runner() &&
        message.start_runner().setup().attempt() == 2) {
      told = message.start_runner().setup().resume().step();
    }
  }
  CHECK(told == expected);
  // The next step is published; where it is the damaged one, anew.
  const int64_t next = expected + 5;
  PutShard(world, id, 2, next);
  world.Say(world.node(0),
            world.node(0).Report(id, 2, CheckpointReady(id, next)));
  world.Pump();
  CHECK(world.Job(id).checkpoint_step() == next);
  CHECK(VerifyCheckpoint(world.Job(id).checkpoint()).ok());
}

TEST_CASE("engine: reports of an attempt that is over change nothing") {
  World world;
  world.AddNode(Named("n1"));
  v1::JobSpec spec = ScriptedSpec("a", 2);
  spec.mutable_restart()->set_max(1);
  const std::string id = world.Submit(spec).id();
  world.Pump();
  world.Say(world.node(0), world.node(0).Gone(id, 1, SIGKILL));
  world.Pass(absl::Seconds(1));
  REQUIRE(world.Job(id).attempt() == 2);
  world.Say(world.node(0), world.node(0).Progress(id, 1, 19, 19));
  world.Say(world.node(0), world.node(0).Finished(id, 1, true));
  world.Pump();
  CHECK(world.State(id) == v1::RUNNING);
  CHECK(world.Job(id).step() == 0);
  CHECK(absl::IsFailedPrecondition(
      world.engine().BeginShard(id, 1, 5, v1::Shard()).status()));
}

TEST_CASE("engine: a node that is asked to leave costs no restart") {
  World world;
  for (const char* name : {"n1", "n2"}) {
    ScriptedNode::Options options = Named(name);
    options.devices = 1;
    world.AddNode(options);
  }
  const std::string id = world.Submit(ScriptedSpec("a", 2)).id();
  world.Pump();
  REQUIRE(world.State(id) == v1::RUNNING);
  v1::NodeMessage leaving;
  leaving.set_leaving("signal 15");
  world.Say(world.node(1), leaving);
  world.Pump();
  // The stop goes to the leader; the other runner ends with it.
  for (int i : {0, 1}) {
    if (!world.node(i).runners.empty() && world.Job(id).attempt() == 1) {
      world.Say(world.node(i), world.node(i).Gone(id, 1, 0));
    }
  }
  world.Disconnect(world.node(1));
  world.Pass(absl::Seconds(3));
  CHECK(world.State(id) == v1::RUNNING);
  CHECK(world.Job(id).attempt() == 2);
}

}  // namespace
}  // namespace pipework
