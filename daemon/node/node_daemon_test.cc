// The node daemon with a coordinator that a test scripts, and a runner that
// computes nothing. Real processes, sockets and signals.
#include "daemon/node/node_daemon.h"

#include <dirent.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "proto/node.grpc.pb.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() { REQUIRE(mkdtemp(&path[0]) != nullptr); }
  ~Folder() { fs::remove_all(path); }
  std::string path = "/tmp/pwnodeXXXXXX";
};

// NodeControl as the test wants it.
class FakeCoordinator : public v1::NodeControl::Service {
 public:
  explicit FakeCoordinator(int port = 0) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                             grpc::InsecureServerCredentials(), &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_ != nullptr);
  }
  ~FakeCoordinator() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  int port() const { return port_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::NodeMessage>* stream)
      override {
    v1::NodeMessage message;
    if (!stream->Read(&message)) return grpc::Status::OK;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      hellos_.push_back(message.hello());
      stream_ = stream;
      context_ = context;
      v1::CoordinatorMessage welcome;
      *welcome.mutable_welcome() = welcome_;
      stream->Write(welcome);
      changed_.notify_all();
    }
    while (stream->Read(&message)) {
      std::lock_guard<std::mutex> lock(mutex_);
      messages_.push_back(message);
      if (acknowledges && message.sequence() > 0) {
        v1::CoordinatorMessage acknowledgement;
        acknowledgement.set_acknowledged(message.sequence());
        stream->Write(acknowledgement);
      }
      changed_.notify_all();
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (stream_ == stream) stream_ = nullptr;
    ++closed_;
    changed_.notify_all();
    return grpc::Status::OK;
  }
  grpc::Status PutShard(grpc::ServerContext*,
                        grpc::ServerReader<v1::ShardChunk>* reader,
                        v1::PutShardResponse*) override {
    v1::ShardChunk chunk;
    std::string data;
    v1::ShardChunk first;
    while (reader->Read(&chunk)) {
      if (data.empty()) first = chunk;
      data += chunk.data();
    }
    std::lock_guard<std::mutex> lock(mutex_);
    ++puts_;
    changed_.notify_all();
    if (puts_ <= refuse_puts) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "not now");
    }
    shards_.push_back(absl::StrCat(first.job(), " ", first.attempt(), " ",
                                   first.step(), " ", first.shard().file(), " ",
                                   data));
    return grpc::Status::OK;
  }
  grpc::Status GetShard(grpc::ServerContext*, const v1::GetShardRequest*,
                        grpc::ServerWriter<v1::ShardChunk>* writer) override {
    v1::ShardChunk chunk;
    chunk.set_data("shard");
    writer->Write(chunk);
    return grpc::Status::OK;
  }

  // Waits for `condition`, which sees the lists below.
  bool Await(const std::function<bool()>& condition) {
    std::unique_lock<std::mutex> lock(mutex_);
    return WaitUntil(changed_, lock, MonotonicNow() + absl::Seconds(20),
                     [&] { return condition(); });
  }
  void Send(v1::CoordinatorMessage message) {
    std::lock_guard<std::mutex> lock(mutex_);
    REQUIRE(stream_ != nullptr);
    stream_->Write(message);
  }
  void Cut() {
    std::lock_guard<std::mutex> lock(mutex_);
    context_->TryCancel();
  }
  v1::RunnerRef* Expect(const std::string& job, int attempt) {
    std::lock_guard<std::mutex> lock(mutex_);
    v1::RunnerRef* ref = welcome_.add_runners();
    ref->set_job(job);
    ref->set_attempt(attempt);
    return ref;
  }

  // Under the mutex: call from Await, or when nothing moves.
  const v1::NodeMessage* Find(
      const std::function<bool(const v1::NodeMessage&)>& wanted) const {
    for (const v1::NodeMessage& message : messages_) {
      if (wanted(message)) return &message;
    }
    return nullptr;
  }
  const v1::NodeMessage* Answer(int64_t command) const {
    return Find([command](const v1::NodeMessage& message) {
      return message.answer().command() == command;
    });
  }
  const v1::NodeMessage* Gone() const {
    return Find([](const v1::NodeMessage& m) { return m.has_gone(); });
  }
  const v1::NodeMessage* Report(v1::RunnerReport::BodyCase kind) const {
    return Find([kind](const v1::NodeMessage& message) {
      return message.report().report().body_case() == kind;
    });
  }

  std::vector<v1::Hello> hellos_;
  std::vector<v1::NodeMessage> messages_;
  std::vector<std::string> shards_;
  v1::CoordinatorMessage::Welcome welcome_;
  int puts_ = 0;
  int refuse_puts = 0;
  bool acknowledges = true;
  int closed_ = 0;

 private:
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::NodeMessage>* stream_ =
      nullptr;
  grpc::ServerContext* context_ = nullptr;
};

NodeDaemon::Options OptionsFor(const FakeCoordinator& coordinator,
                               const Folder& folder) {
  NodeDaemon::Options options;
  options.coordinator = coordinator.address();
  options.name = "n1";
  options.state_dir = folder.path + "/node";
  options.devices = 2;
  options.memory_bytes = int64_t{2} << 30;
  options.runner = fs::absolute("daemon/node/fake_runner").string();
  options.heartbeat_period = absl::Milliseconds(100);
  options.leave_limit = absl::Milliseconds(300);
  return options;
}

std::unique_ptr<NodeDaemon> StartDaemon(NodeDaemon::Options options) {
  auto daemon = NodeDaemon::Start(std::move(options));
  INFO(daemon.status().message());
  REQUIRE(daemon.ok());
  return *std::move(daemon);
}

v1::CoordinatorMessage StartRunner(int64_t command, const std::string& name) {
  v1::CoordinatorMessage message;
  message.set_command(command);
  v1::RunnerSetup* setup = message.mutable_start_runner()->mutable_setup();
  setup->set_job("j-abcdef");
  setup->set_attempt(1);
  setup->mutable_spec()->set_name(name);
  return message;
}

v1::CoordinatorMessage ToRunner(int64_t command, bool start) {
  v1::CoordinatorMessage message;
  message.set_command(command);
  auto* to = message.mutable_to_runner();
  to->mutable_runner()->set_job("j-abcdef");
  to->mutable_runner()->set_attempt(1);
  if (start) {
    to->mutable_command()->mutable_start();
  } else {
    to->mutable_command()->mutable_stop();
  }
  return message;
}

// Children of this process that run the fake runner.
int RunnersAlive() {
  int alive = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream stat(entry.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(stat)),
                     std::istreambuf_iterator<char>());
    const size_t end = text.rfind(')');
    if (end == std::string::npos) continue;
    char state = 0;
    int parent = 0;
    if (std::sscanf(text.c_str() + end + 1, " %c %d", &state, &parent) == 2 &&
        parent == getpid() && state != 'Z' &&
        absl::StrContains(text, "(fake_runner)")) {
      ++alive;
    }
  }
  return alive;
}

TEST_CASE(
    "node daemon: it registers its devices and keeps saying that it lives") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] {
    return coordinator.Find([](const v1::NodeMessage& m) {
      return m.heartbeat();
    }) != nullptr;
  }));
  const v1::Hello& hello = coordinator.hellos_[0];
  CHECK(hello.node() == "n1");
  CHECK(hello.address() == "127.0.0.1");
  REQUIRE(hello.devices_size() == 3);
  CHECK(hello.devices(1).name() == "cpu:1");
  CHECK(hello.devices(1).memory_bytes() == int64_t{1} << 30);
  CHECK(hello.devices(1).cores_size() > 0);
  CHECK(hello.devices(2).name() == "cuda:0");
  CHECK_FALSE(hello.devices(2).usable());
}

TEST_CASE(
    "node daemon: a runner is started once, and its reports arrive in order") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  coordinator.Send(StartRunner(7, "obeys"));
  REQUIRE(coordinator.Await([&] {
    return coordinator.Answer(7) != nullptr &&
           coordinator.Report(v1::RunnerReport::kReady) != nullptr;
  }));
  CHECK(coordinator.Answer(7)->answer().code() == 0);
  coordinator.Send(StartRunner(7, "obeys"));  // the same command
  coordinator.Send(StartRunner(8, "obeys"));  // the same runner
  coordinator.Send(ToRunner(9, /*start=*/true));
  coordinator.Send(ToRunner(10, /*start=*/true));  // after a restart
  REQUIRE(coordinator.Await([&] {
    const auto* progress = coordinator.Report(v1::RunnerReport::kProgress);
    return coordinator.Answer(10) != nullptr && progress != nullptr;
  }));
  CHECK(RunnersAlive() == 1);
  coordinator.Send(ToRunner(11, /*start=*/false));
  REQUIRE(coordinator.Await([&] { return coordinator.Gone() != nullptr; }));
  CHECK(coordinator.Gone()->gone().wait_status() == 0);
  std::vector<int64_t> steps;
  int64_t sequence = 0;
  for (const v1::NodeMessage& message : coordinator.messages_) {
    if (message.sequence() == 0) continue;
    CHECK(message.sequence() > sequence);
    sequence = message.sequence();
    for (const auto& step : message.report().report().progress().steps()) {
      steps.push_back(step.step());
    }
  }
  CHECK(steps == std::vector<int64_t>{0, 1, 2, 3, 4});
  CHECK(coordinator.Report(v1::RunnerReport::kEnded) != nullptr);
}

TEST_CASE(
    "node daemon: a runner's death is told within a second, with its last "
    "words") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  coordinator.Send(StartRunner(1, "dies"));
  REQUIRE(coordinator.Await(
      [&] { return coordinator.Report(v1::RunnerReport::kReady) != nullptr; }));
  coordinator.Send(ToRunner(2, /*start=*/true));
  REQUIRE(coordinator.Await([&] { return coordinator.Gone() != nullptr; }));
  const auto& gone = coordinator.Gone()->gone();
  CHECK(gone.how() == "signal 6 (Aborted)");
  CHECK(absl::StrContains(gone.last_words(), "something broke here"));
}

TEST_CASE("node daemon: an early exit is told with its code") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  coordinator.Send(StartRunner(1, "leaves"));
  REQUIRE(coordinator.Await([&] { return coordinator.Gone() != nullptr; }));
  CHECK(coordinator.Gone()->gone().how() == "exit 3");
}

TEST_CASE(
    "node daemon: training goes on without a coordinator, and every step is "
    "told later") {
  Folder folder;
  auto coordinator = std::make_unique<FakeCoordinator>();
  coordinator->acknowledges = false;
  const int port = coordinator->port();
  auto daemon = StartDaemon(OptionsFor(*coordinator, folder));
  REQUIRE(coordinator->Await([&] { return coordinator->hellos_.size() == 1; }));
  coordinator->Send(StartRunner(1, "obeys"));
  REQUIRE(coordinator->Await([&] {
    return coordinator->Report(v1::RunnerReport::kReady) != nullptr;
  }));
  coordinator->Send(ToRunner(2, /*start=*/true));
  REQUIRE(
      coordinator->Await([&] { return coordinator->Answer(2) != nullptr; }));
  coordinator.reset();
  CHECK(RunnersAlive() == 1);

  FakeCoordinator second(port);
  second.Expect("j-abcdef", 1);
  REQUIRE(second.Await(
      [&] { return second.Report(v1::RunnerReport::kProgress) != nullptr; }));
  CHECK(second.hellos_[0].runners_size() == 1);
  CHECK(second.hellos_[0].first_sequence() == 1);
  std::vector<int64_t> steps;
  REQUIRE(second.Await([&] {
    steps.clear();
    for (const v1::NodeMessage& message : second.messages_) {
      for (const auto& step : message.report().report().progress().steps()) {
        steps.push_back(step.step());
      }
    }
    return steps.size() >= 5;
  }));
  CHECK(steps == std::vector<int64_t>{0, 1, 2, 3, 4});
  CHECK(RunnersAlive() == 1);
}

TEST_CASE(
    "node daemon: a runner that the coordinator does not want any more is "
    "ended") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  coordinator.Send(StartRunner(1, "obeys"));
  REQUIRE(coordinator.Await([&] { return coordinator.Answer(1) != nullptr; }));
  REQUIRE(RunnersAlive() == 1);
  coordinator.Cut();  // the next welcome lists no runner
  REQUIRE(coordinator.Await([&] { return coordinator.Gone() != nullptr; }));
  CHECK(coordinator.Gone()->gone().how() == "signal 9 (Killed)");
  CHECK(RunnersAlive() == 0);
}

TEST_CASE("node daemon: a shard is sent until the coordinator has it") {
  FakeCoordinator coordinator;
  Folder folder;
  coordinator.refuse_puts = 2;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  coordinator.Send(StartRunner(1, "shard"));
  REQUIRE(coordinator.Await(
      [&] { return coordinator.Report(v1::RunnerReport::kReady) != nullptr; }));
  coordinator.Send(ToRunner(2, /*start=*/true));
  REQUIRE(coordinator.Await([&] { return !coordinator.shards_.empty(); }));
  CHECK(coordinator.puts_ == 3);
  CHECK(coordinator.shards_[0] == "j-abcdef 1 5 stage-0.safetensors shard");
}

TEST_CASE(
    "node daemon: a shard with another hash than its manifest stops the "
    "start") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  v1::CoordinatorMessage start = StartRunner(1, "obeys");
  v1::Manifest* resume =
      start.mutable_start_runner()->mutable_setup()->mutable_resume();
  v1::Shard* shard = resume->add_shards();
  shard->set_file("stage-0.safetensors");
  shard->set_bytes(5);
  shard->set_sha256("00");
  coordinator.Send(start);
  REQUIRE(coordinator.Await([&] { return coordinator.Answer(1) != nullptr; }));
  CHECK(coordinator.Answer(1)->answer().code() ==
        static_cast<int>(absl::StatusCode::kDataLoss));
  CHECK(RunnersAlive() == 0);
}

TEST_CASE("node daemon: links are measured by a runner that listens first") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  const auto ask = [&](const v1::CoordinatorMessage& question) {
    coordinator.Send(question);
    const int64_t command = question.command();
    REQUIRE(coordinator.Await(
        [&] { return coordinator.Answer(command) != nullptr; }));
    return coordinator.Answer(command)->answer();
  };
  v1::CoordinatorMessage message;
  message.set_command(1);
  v1::RunnerLinks* links = message.mutable_listen_links();
  links->set_job("links-abc");
  links->add_nodes("n1");
  links->add_nodes("n2");
  CHECK(ask(message).data_address() == "127.0.0.1:1");
  message.Clear();
  message.set_command(2);
  message.mutable_measure_links()->mutable_runner()->set_job("links-abc");
  v1::Placement* placement =
      message.mutable_measure_links()->mutable_placement();
  placement->add_seats();
  placement->add_seats()->set_data_address("127.0.0.1:2");
  const v1::NodeMessage::Answer answer = ask(message);
  REQUIRE(answer.links_size() == 1);
  CHECK(answer.links(0).a() == "n1");
  CHECK(answer.links(0).b() == "127.0.0.1:2");
  // Nobody listens under a name that was not asked for.
  message.set_command(3);
  message.mutable_measure_links()->mutable_runner()->set_job("links-other");
  CHECK(ask(message).code() == static_cast<int>(absl::StatusCode::kNotFound));
}

TEST_CASE(
    "node daemon: a profile is answered, and so is a profiler that dies") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  v1::CoordinatorMessage message;
  message.set_command(1);
  message.mutable_run_profile()->set_job("j-abcdef");
  message.mutable_run_profile()->set_batch(32);
  coordinator.Send(message);
  REQUIRE(coordinator.Await([&] { return coordinator.Answer(1) != nullptr; }));
  CHECK(coordinator.Answer(1)->answer().profile().batch() == 32);
  message.set_command(2);
  message.mutable_run_profile()->set_job("j-ghijkl");
  message.mutable_run_profile()->mutable_spec()->set_name("dies");
  coordinator.Send(message);
  REQUIRE(coordinator.Await([&] { return coordinator.Answer(2) != nullptr; }));
  CHECK(
      absl::StrContains(coordinator.Answer(2)->answer().message(), "signal 6"));
}

TEST_CASE("node daemon: what is wrong with the data is told with its path") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  v1::CoordinatorMessage message;
  message.set_command(1);
  auto* train = message.mutable_check_data()
                    ->mutable_spec()
                    ->mutable_data()
                    ->mutable_train();
  train->set_x("/nowhere/x.npy");
  train->set_y("/nowhere/y.npy");
  coordinator.Send(message);
  REQUIRE(coordinator.Await([&] { return coordinator.Answer(1) != nullptr; }));
  CHECK(coordinator.Answer(1)->answer().code() != 0);
  CHECK(absl::StrContains(coordinator.Answer(1)->answer().message(),
                          "/nowhere/x.npy"));
}

TEST_CASE(
    "node daemon: its end takes its runners and files along, and is "
    "announced") {
  FakeCoordinator coordinator;
  Folder folder;
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  REQUIRE(coordinator.Await([&] { return coordinator.hellos_.size() == 1; }));
  coordinator.Send(StartRunner(1, "obeys"));
  REQUIRE(coordinator.Await([&] { return coordinator.Answer(1) != nullptr; }));
  CHECK(fs::exists(folder.path + "/node/jobs/j-abcdef/attempt-1"));
  daemon->Stop(/*polite=*/true);
  CHECK(RunnersAlive() == 0);
  CHECK_FALSE(fs::exists(folder.path + "/node/jobs"));
  CHECK(coordinator.Await([&] {
    return coordinator.Find([](const v1::NodeMessage& m) {
      return m.body_case() == v1::NodeMessage::kLeaving;
    }) != nullptr &&
           coordinator.Gone() != nullptr;
  }));
}

TEST_CASE(
    "node daemon: files of jobs that an earlier daemon left are removed at the "
    "start") {
  FakeCoordinator coordinator;
  Folder folder;
  fs::create_directories(folder.path + "/node/jobs/j-old/attempt-1");
  std::ofstream(folder.path + "/node/mine") << "not of a job";
  auto daemon = StartDaemon(OptionsFor(coordinator, folder));
  CHECK_FALSE(fs::exists(folder.path + "/node/jobs"));
  CHECK(fs::exists(folder.path + "/node/mine"));
  // And two daemons do not share a folder.
  const auto second = NodeDaemon::Start(OptionsFor(coordinator, folder));
  CHECK(absl::IsFailedPrecondition(second.status()));
  CHECK(absl::StrContains(second.status().message(), "--state-dir"));
}

TEST_CASE("node daemon: a stop before the first session leaves none behind") {
  Folder folder;
  FakeCoordinator coordinator;
  // The session's thread is anywhere between its start and the welcome.
  for (int i = 0; i < 20; ++i) {
    auto daemon = StartDaemon(OptionsFor(coordinator, folder));
    daemon->Stop(/*polite=*/false);
  }
}

TEST_CASE("node daemon: options that cannot work are refused by name") {
  const auto refused =
      [](const std::function<void(NodeDaemon::Options*)>& set) {
        NodeDaemon::Options options;
        set(&options);
        return std::string(options.Validate().message());
      };
  CHECK(refused([](auto*) {}) == "");
  CHECK(absl::StrContains(refused([](auto* o) { o->coordinator = "host"; }),
                          "--coordinator"));
  CHECK(absl::StrContains(
      refused([](auto* o) { o->coordinator = "10.0.0.1:7070"; }),
      "--token-file"));
  CHECK(
      absl::StrContains(refused([](auto* o) { o->devices = 0; }), "--devices"));
  CHECK(absl::StrContains(refused([](auto* o) { o->cores = {100000}; }),
                          "--cores"));
  CHECK(absl::StrContains(refused([](auto* o) { o->data_ports = "5-3"; }),
                          "--data-ports"));
  for (const char* name : {"a/b", "..", "a b", "a\033[31m"}) {
    CHECK(
        absl::StrContains(refused([&](auto* o) { o->name = name; }), "--name"));
  }
}

TEST_CASE("core lists are read as they are written") {
  CHECK(*ParseCores("0-2,5") == std::vector<int>{0, 1, 2, 5});
  for (const char* bad : {"a", "3-1", "-1", "1-2-3", "0-99999999"}) {
    CAPTURE(bad);
    CHECK_FALSE(ParseCores(bad).ok());
  }
}

}  // namespace
}  // namespace pipework
