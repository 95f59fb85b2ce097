// The coordinator's services over real gRPC on loopback, with a node that a
// test scripts.
#include "daemon/coordinator/server.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/coordinator/job_machine.h"
#include "daemon/coordinator/rpc_error.h"
#include "daemon/coordinator/scripted_node.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/health.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "proto/rpc_status.pb.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

struct Folder {
  Folder() { REQUIRE(mkdtemp(&path[0]) != nullptr); }
  ~Folder() { fs::remove_all(path); }
  std::string path = "/tmp/pwserverXXXXXX";
};

std::unique_ptr<CoordinatorServer> StartServer(const std::string& folder,
                                               bool token = false) {
  CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  options.state_dir = folder + "/state";
  if (token) {
    options.token_file = folder + "/token";
    std::ofstream(options.token_file) << kToken << "\n";
    chmod(options.token_file.c_str(), 0600);
  }
  auto server = CoordinatorServer::Start(options);
  INFO(server.status().message());
  REQUIRE(server.ok());
  return *std::move(server);
}

std::shared_ptr<grpc::Channel> Dial(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(64 << 20);
  arguments.SetMaxSendMessageSize(64 << 20);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, 256 << 10);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

void Limit(grpc::ClientContext& context, double seconds = 30) {
  context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds)));
}

template <typename F>
bool Eventually(F condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

// A scripted node on a real session.
class RemoteNode {
 public:
  RemoteNode(const std::string& address, ScriptedNode::Options options)
      : node_(std::move(options)),
        stub_(v1::NodeControl::NewStub(Dial(address))),
        stream_(stub_->Session(&context_)) {
    v1::NodeMessage hello;
    *hello.mutable_hello() = node_.Hello();
    REQUIRE(stream_->Write(hello));
    v1::CoordinatorMessage welcome;
    REQUIRE(stream_->Read(&welcome));
    REQUIRE(welcome.has_welcome());
    node_.Handle(welcome);
    thread_ = std::thread([this] {
      v1::CoordinatorMessage message;
      while (stream_->Read(&message)) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (held_ && message.has_check_data()) {
          waiting_.push_back(message);
          continue;
        }
        for (const auto& reply : node_.Handle(message)) stream_->Write(reply);
      }
    });
  }
  ~RemoteNode() {
    context_.TryCancel();
    thread_.join();
    stream_->Finish();
  }

  // While held, questions about data wait.
  void Hold() {
    std::lock_guard<std::mutex> lock(mutex_);
    held_ = true;
  }
  size_t waiting() {
    std::lock_guard<std::mutex> lock(mutex_);
    return waiting_.size();
  }
  void Release() {
    std::lock_guard<std::mutex> lock(mutex_);
    held_ = false;
    for (const auto& message : waiting_) {
      for (const auto& reply : node_.Handle(message)) stream_->Write(reply);
    }
    waiting_.clear();
  }
  void Say(const std::function<v1::NodeMessage(ScriptedNode&)>& make) {
    std::lock_guard<std::mutex> lock(mutex_);
    stream_->Write(make(node_));
  }

 private:
  std::mutex mutex_;
  bool held_ = false;
  std::vector<v1::CoordinatorMessage> waiting_;
  ScriptedNode node_;
  std::unique_ptr<v1::NodeControl::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::NodeMessage, v1::CoordinatorMessage>>
      stream_;
  std::thread thread_;
};

struct Cluster {
  explicit Cluster(int devices = 2)
      : server(StartServer(folder.path)),
        channel(Dial(server->address())),
        jobs(v1::JobService::NewStub(channel)) {
    ScriptedNode::Options options;
    options.devices = devices;
    node = std::make_unique<RemoteNode>(server->address(), options);
  }

  grpc::Status Create(const v1::JobSpec& spec, const std::string& request_id,
                      v1::Job* job, bool wait = false) {
    grpc::ClientContext context;
    Limit(context);
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    request.set_request_id(request_id);
    request.set_wait_for_capacity(wait);
    return jobs->CreateJob(&context, request, job);
  }
  v1::Job Get(const std::string& id) {
    grpc::ClientContext context;
    Limit(context);
    v1::GetJobRequest request;
    request.set_job(id);
    v1::Job job;
    REQUIRE(jobs->GetJob(&context, request, &job).ok());
    return job;
  }
  bool Reaches(const std::string& id, v1::JobState state) {
    return Eventually([&] { return Get(id).state() == state; });
  }

  Folder folder;
  std::unique_ptr<CoordinatorServer> server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::JobService::Stub> jobs;
  std::unique_ptr<RemoteNode> node;
};

TEST_CASE(
    "server: a submit that is repeated returns its job, another body is "
    "refused") {
  Cluster cluster;
  v1::Job first, again, other;
  REQUIRE(cluster.Create(ScriptedSpec("a", 2), "r1", &first).ok());
  REQUIRE(cluster.Create(ScriptedSpec("a", 2), "r1", &again).ok());
  CHECK(first.id() == again.id());
  const grpc::Status refused =
      cluster.Create(ScriptedSpec("b", 2), "r1", &other);
  CHECK(refused.error_code() == grpc::StatusCode::ALREADY_EXISTS);
  CHECK(ReasonOf(FromRpc(refused)) == "REQUEST_ID_REUSED");
  CHECK(cluster.Reaches(first.id(), v1::RUNNING));
}

TEST_CASE(
    "server: all problems of a spec come back at once, with their fields") {
  Cluster cluster;
  v1::JobSpec spec = ScriptedSpec("a", 2);
  spec.mutable_batch()->set_minibatch(-4);
  spec.mutable_optimizer()->set_name("sgdd");
  spec.mutable_data()->mutable_train()->set_x("relative.npy");
  v1::Job job;
  const grpc::Status status = cluster.Create(spec, "", &job);
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  google::rpc::Status details;
  REQUIRE(details.ParseFromString(status.error_details()));
  std::set<std::string> fields;
  int violations = 0;
  for (const auto& detail : details.details()) {
    v1::Problem problem;
    google::rpc::BadRequest bad;
    if (detail.UnpackTo(&problem)) fields.insert(problem.field());
    if (detail.UnpackTo(&bad)) violations = bad.field_violations_size();
  }
  CHECK(fields.count("batch.minibatch") == 1);
  CHECK(fields.count("optimizer.name") == 1);
  CHECK(fields.count("data.train.x") == 1);
  CHECK(violations == static_cast<int>(fields.size()));
  CHECK(ReasonOf(FromRpc(status)) == "INVALID_SPEC");
  CHECK(status.error_message().find('\n') == std::string::npos);
}

TEST_CASE(
    "server: what can never fit is refused at once with the numbers, or waits "
    "when asked to") {
  Cluster cluster(/*devices=*/2);
  v1::Job job;
  const grpc::Status status = cluster.Create(ScriptedSpec("a", 3), "", &job);
  CHECK(status.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(ReasonOf(FromRpc(status)) == "INFEASIBLE");
  CHECK(absl::StrContains(status.error_message(), "3"));
  CHECK(absl::StrContains(status.error_message(), "2"));
  REQUIRE(cluster.Create(ScriptedSpec("a", 3), "", &job, /*wait=*/true).ok());
  CHECK(Eventually(
      [&] { return cluster.Get(job.id()).reason() == "NO_CAPACITY"; }));
}

TEST_CASE("server: forty submits that wait leave health its answer") {
  Cluster cluster;
  cluster.node->Hold();
  std::vector<std::future<bool>> submits;
  for (int i = 0; i < 40; ++i) {
    submits.push_back(std::async(std::launch::async, [&cluster, i] {
      v1::Job job;
      return cluster
          .Create(ScriptedSpec(absl::StrCat("a", i), 2), absl::StrCat("r", i),
                  &job)
          .ok();
    }));
  }
  REQUIRE(Eventually([&] { return cluster.node->waiting() == 40; }));
  auto health = grpc::health::v1::Health::NewStub(cluster.channel);
  absl::Duration fastest = absl::InfiniteDuration();
  for (int i = 0; i < 5; ++i) {
    grpc::ClientContext context;
    Limit(context);
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
    const absl::Time begin = absl::Now();
    REQUIRE(health->Check(&context, request, &response).ok());
    fastest = std::min(fastest, absl::Now() - begin);
    CHECK(response.status() == grpc::health::v1::HealthCheckResponse::SERVING);
  }
  // A handler that had to wait for one of the forty would wait for ever here;
  // the fastest of five leaves a busy machine out.
  CHECK(fastest < absl::Milliseconds(100));
  cluster.node->Release();
  for (auto& submit : submits) CHECK(submit.get());
}

TEST_CASE("server: a message of 5 MiB arrives and is answered") {
  Cluster cluster;
  v1::JobSpec spec = ScriptedSpec("a", 2);
  spec.set_name(std::string(5 << 20, 'x'));
  v1::Job job;
  const grpc::Status status = cluster.Create(spec, "", &job);
  // Refused for its name, not for its size.
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(status.error_message().size() < 5000);
}

TEST_CASE(
    "server: a watch has a snapshot, then changes, and ends with its job") {
  Cluster cluster;
  v1::Job job;
  REQUIRE(cluster.Create(ScriptedSpec("a", 2), "", &job).ok());
  REQUIRE(cluster.Reaches(job.id(), v1::RUNNING));
  grpc::ClientContext context;
  Limit(context);
  v1::WatchJobsRequest request;
  request.set_job(job.id());
  auto reader = cluster.jobs->WatchJobs(&context, request);
  v1::WatchJobsResponse response;
  REQUIRE(reader->Read(&response));
  CHECK(response.snapshot());
  CHECK(response.job().state() == v1::RUNNING);
  CHECK(response.events_size() >= 5);

  cluster.node->Say(
      [&](ScriptedNode& node) { return node.Progress(job.id(), 1, 4, 4); });
  cluster.node->Say(
      [&](ScriptedNode& node) { return node.Finished(job.id(), 1, true); });
  cluster.node->Say(
      [&](ScriptedNode& node) { return node.Gone(job.id(), 1, 0); });
  int64_t revision = response.job().revision();
  int steps = 0;
  v1::JobState last = v1::RUNNING;
  while (reader->Read(&response)) {
    CHECK_FALSE(response.snapshot());
    steps += response.steps_size();
    if (!response.has_job()) continue;
    CHECK(response.job().revision() >= revision);
    revision = response.job().revision();
    last = response.job().state();
  }
  CHECK(reader->Finish().ok());
  CHECK(last == v1::SUCCEEDED);
  CHECK(steps == 4);
}

TEST_CASE(
    "server: logs are followed to the end of their job, and their tail is cut "
    "right") {
  Cluster cluster;
  v1::Job job;
  REQUIRE(cluster.Create(ScriptedSpec("a", 2), "", &job).ok());
  REQUIRE(cluster.Reaches(job.id(), v1::RUNNING));
  const auto say = [&](const std::string& text, int stage) {
    cluster.node->Say([&](ScriptedNode& node) {
      v1::RunnerReport report;
      v1::LogLine* line = report.mutable_log()->add_lines();
      line->set_text(text);
      line->set_stage(stage);
      return node.Report(job.id(), 1, report);
    });
  };
  say("one", 0);
  say("two", 1);
  grpc::ClientContext context;
  Limit(context);
  v1::StreamLogsRequest request;
  request.set_job(job.id());
  request.set_follow(true);
  auto reader = cluster.jobs->StreamLogs(&context, request);
  std::vector<std::string> texts;
  v1::LogChunk chunk;
  while (texts.size() < 2 && reader->Read(&chunk)) {
    for (const v1::LogLine& line : chunk.lines()) texts.push_back(line.text());
  }
  say("three", 0);
  cluster.node->Say(
      [&](ScriptedNode& node) { return node.Finished(job.id(), 1, true); });
  cluster.node->Say(
      [&](ScriptedNode& node) { return node.Gone(job.id(), 1, 0); });
  while (reader->Read(&chunk)) {
    for (const v1::LogLine& line : chunk.lines()) texts.push_back(line.text());
  }
  CHECK(reader->Finish().ok());
  CHECK(texts == std::vector<std::string>{"one", "two", "three"});

  grpc::ClientContext again;
  Limit(again);
  request.set_follow(false);
  request.set_tail(1);
  request.add_stages(0);
  auto tail = cluster.jobs->StreamLogs(&again, request);
  texts.clear();
  while (tail->Read(&chunk)) {
    for (const v1::LogLine& line : chunk.lines()) texts.push_back(line.text());
  }
  CHECK(texts == std::vector<std::string>{"three"});
}

TEST_CASE("server: cancel is idempotent, and an unknown job is not found") {
  Cluster cluster;
  v1::Job job;
  REQUIRE(cluster.Create(ScriptedSpec("a", 2), "", &job).ok());
  v1::CancelJobRequest request;
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    Limit(context);
    request.set_job(job.id());
    v1::Job reply;
    CHECK(cluster.jobs->CancelJob(&context, request, &reply).ok());
    REQUIRE(cluster.Reaches(job.id(), v1::CANCELLED));
  }
  grpc::ClientContext context;
  Limit(context);
  request.set_job("j-nobody");
  v1::Job reply;
  const grpc::Status status =
      cluster.jobs->CancelJob(&context, request, &reply);
  CHECK(status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(ReasonOf(FromRpc(status)) == "JOB_NOT_FOUND");
}

TEST_CASE("server: jobs are listed newest first, in pages") {
  Cluster cluster;
  for (const char* name : {"a", "b", "c"}) {
    v1::Job job;
    REQUIRE(cluster.Create(ScriptedSpec(name, 2), "", &job).ok());
  }
  std::string names;
  v1::ListJobsRequest request;
  request.set_page_size(2);
  for (int page = 0; page < 2; ++page) {
    grpc::ClientContext context;
    Limit(context);
    v1::ListJobsResponse response;
    REQUIRE(cluster.jobs->ListJobs(&context, request, &response).ok());
    for (const v1::Job& job : response.jobs()) names += job.name();
    request.set_page_token(response.next_page_token());
    CHECK(response.next_page_token().empty() == (page == 1));
  }
  CHECK(names == "cba");
  grpc::ClientContext context;
  Limit(context);
  request.set_page_size(-1);
  v1::ListJobsResponse response;
  CHECK(ReasonOf(FromRpc(cluster.jobs->ListJobs(
            &context, request, &response))) == "PAGE_SIZE_NEGATIVE");
}

TEST_CASE("server: shards cannot be read from outside the state folder") {
  Cluster cluster;
  auto stub = v1::NodeControl::NewStub(cluster.channel);
  const std::string state = cluster.folder.path + "/state";
  fs::create_directories(state + "/jobs/j-a/checkpoints/step-1");
  std::ofstream(state + "/jobs/j-a/checkpoints/step-1/good") << "data";
  fs::create_symlink("/etc/passwd",
                     state + "/jobs/j-a/checkpoints/step-1/link");
  const auto get = [&](const std::string& folder, const std::string& file) {
    grpc::ClientContext context;
    Limit(context);
    v1::GetShardRequest request;
    request.set_folder(folder);
    request.set_file(file);
    auto reader = stub->GetShard(&context, request);
    v1::ShardChunk chunk;
    std::string data;
    while (reader->Read(&chunk)) data += chunk.data();
    const grpc::Status status = reader->Finish();
    return status.ok() ? data : absl::StrCat("error ", status.error_code());
  };
  const std::string step = state + "/jobs/j-a/checkpoints/step-1";
  CHECK(get(step, "good") == "data");
  CHECK(get("/etc", "passwd") == "error 7");
  CHECK(get(step, "../../../../state.db") == "error 7");
  CHECK(get(step + "/../../../..", "state.db") == "error 7");
  CHECK(get(state, "state.db") == "error 7");
  CHECK(get(step, "link") == "error 7");
  CHECK(get(step, "none") == "error 5");
}

// One call with a raw request; `reply_bytes` may be null.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& method, const std::string& token,
                     const std::string& request_bytes = "",
                     std::string* reply_bytes = nullptr) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  Limit(context, 10);
  if (!token.empty()) context.AddMetadata("authorization", token);
  grpc::CompletionQueue queue;
  grpc::ByteBuffer request;
  grpc::Slice bytes(request_bytes);
  request = grpc::ByteBuffer(&bytes, 1);
  auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (reply_bytes != nullptr && reply.Valid()) {
    std::vector<grpc::Slice> slices;
    if (reply.Dump(&slices).ok()) {
      for (const grpc::Slice& slice : slices) {
        reply_bytes->append(reinterpret_cast<const char*>(slice.begin()),
                            slice.size());
      }
    }
  }
  return status;
}

TEST_CASE("server: reflection lists every service, and health knows each") {
  Folder folder;
  auto server = StartServer(folder.path);
  auto channel = Dial(server->address());
  std::string services;
  // ServerReflectionRequest{list_services: "*"}
  const grpc::Status status = RawCall(
      channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      "", "\x3a\x01*", &services);
  CAPTURE(status.error_code(), status.error_message());
  CHECK(status.ok());
  auto health = grpc::health::v1::Health::NewStub(channel);
  for (const char* name :
       {"grpc.health.v1.Health", "pipework.v1.JobService",
        "pipework.v1.PlanService", "pipework.v1.ProfileService",
        "pipework.v1.PipelineService", "pipework.v1.ClusterService",
        "pipework.v1.NodeControl"}) {
    CAPTURE(name);
    CHECK(absl::StrContains(services, name));
    grpc::ClientContext context;
    Limit(context);
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(name);
    grpc::health::v1::HealthCheckResponse response;
    REQUIRE(health->Check(&context, request, &response).ok());
    CHECK(response.status() == grpc::health::v1::HealthCheckResponse::SERVING);
  }
}

TEST_CASE("server: every call without the right token is unauthenticated") {
  Folder folder;
  auto server = StartServer(folder.path, /*token=*/true);
  auto channel = Dial(server->address());
  std::vector<std::string> methods;
  for (const google::protobuf::FileDescriptor* file :
       {v1::Job::descriptor()->file(), v1::NodeMessage::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        methods.push_back(absl::StrCat("/", service->full_name(), "/",
                                       service->method(m)->name()));
      }
    }
  }
  REQUIRE(methods.size() >= 13);
  methods.push_back(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  for (const std::string& method : methods) {
    for (const std::string& token :
         {std::string(), std::string("Bearer wrong"),
          absl::StrCat("Bearer ", kToken, "x"), std::string(kToken)}) {
      CAPTURE(method, token);
      CHECK(RawCall(channel, method, token).error_code() ==
            grpc::StatusCode::UNAUTHENTICATED);
    }
    const std::string good = absl::StrCat("Bearer ", kToken);
    if (absl::EndsWith(method, "/Session") ||
        absl::EndsWith(method, "/WatchJobs")) {
      continue;  // they would go on
    }
    CAPTURE(method);
    CHECK(RawCall(channel, method, good).error_code() !=
          grpc::StatusCode::UNAUTHENTICATED);
  }
  // Probes carry no token.
  auto health = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  Limit(context);
  grpc::health::v1::HealthCheckResponse response;
  CHECK(health->Check(&context, {}, &response).ok());
}

TEST_CASE(
    "server: a second server on the port or the folder is refused in one "
    "line") {
  Folder folder;
  auto server = StartServer(folder.path);
  CoordinatorServer::Options options;
  options.state_dir = folder.path + "/other";
  options.listen = server->address();
  auto second = CoordinatorServer::Start(options);
  REQUIRE_FALSE(second.ok());
  CHECK(absl::StrContains(second.status().message(), "in use"));
  CHECK(second.status().message().find('\n') == std::string::npos);
  options.listen = "127.0.0.1:0";
  options.state_dir = folder.path + "/state";
  auto third = CoordinatorServer::Start(options);
  REQUIRE_FALSE(third.ok());
  CHECK(absl::StrContains(third.status().message(), "--state-dir"));
}

TEST_CASE("server: options that cannot work are refused by name") {
  const auto message = [](const CoordinatorServer::Options& options) {
    return std::string(options.Validate().message());
  };
  CHECK(message({}) == "");
  CHECK(absl::StrContains(message({"0.0.0.0:7070"}), "--token-file"));
  CHECK(absl::StrContains(message({"localhost"}), "--listen"));
  CHECK(absl::StrContains(message({"127.0.0.1:70700"}), "--listen"));
  CHECK(absl::StrContains(message({"127.0.0.1:1", ""}), "--state-dir"));

  Folder folder;
  CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  options.state_dir = folder.path;
  options.token_file = folder.path + "/token";
  std::ofstream(options.token_file) << kToken;
  chmod(options.token_file.c_str(), 0644);
  CHECK(absl::StrContains(CoordinatorServer::Start(options).status().message(),
                          "0600"));
  chmod(options.token_file.c_str(), 0600);
  std::ofstream(options.token_file) << "short";
  CHECK(absl::StrContains(CoordinatorServer::Start(options).status().message(),
                          "at least 16"));
}

TEST_CASE("server: it stops within its deadline though streams are open") {
  Cluster cluster;
  v1::Job job;
  REQUIRE(cluster.Create(ScriptedSpec("a", 2), "", &job).ok());
  REQUIRE(cluster.Reaches(job.id(), v1::RUNNING));
  grpc::ClientContext context;
  v1::WatchJobsRequest request;
  request.set_job(job.id());
  auto reader = cluster.jobs->WatchJobs(&context, request);
  v1::WatchJobsResponse response;
  REQUIRE(reader->Read(&response));
  auto stopping =
      std::async(std::launch::async, [&] { cluster.server->Stop(); });
  CHECK(stopping.wait_for(std::chrono::seconds(20)) ==
        std::future_status::ready);
  while (reader->Read(&response)) {
  }
  CHECK(reader->Finish().error_code() == grpc::StatusCode::UNAVAILABLE);
}

TEST_CASE("server: what was acknowledged is there after a restart") {
  Folder folder;
  std::string id;
  {
    auto server = StartServer(folder.path);
    RemoteNode node(server->address(), {});
    auto jobs = v1::JobService::NewStub(Dial(server->address()));
    grpc::ClientContext context;
    Limit(context);
    v1::CreateJobRequest request;
    *request.mutable_spec() = ScriptedSpec("a", 2);
    request.set_request_id("r1");
    v1::Job job;
    REQUIRE(jobs->CreateJob(&context, request, &job).ok());
    id = job.id();
  }
  auto server = StartServer(folder.path);
  auto jobs = v1::JobService::NewStub(Dial(server->address()));
  grpc::ClientContext context;
  Limit(context);
  v1::GetJobRequest request;
  request.set_job("name/a");
  v1::Job job;
  REQUIRE(jobs->GetJob(&context, request, &job).ok());
  CHECK(job.id() == id);
}

}  // namespace
}  // namespace pipework
