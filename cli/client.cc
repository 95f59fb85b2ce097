#include "cli/client.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cli/output.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/health.grpc.pb.h"
#include "proto/rpc_status.pb.h"

namespace pipework {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;
constexpr int kMaxErrorBytes = 256 << 10;

std::chrono::system_clock::time_point After(double seconds) {
  return std::chrono::system_clock::now() +
         std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
}

// A gRPC status with its details as ours.
absl::Status FromGrpc(const grpc::Status& status, const std::string& server) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  google::rpc::Status details;
  std::string reason;
  std::vector<v1::Problem> problems;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      google::rpc::ErrorInfo info;
      v1::Problem problem;
      if (detail.UnpackTo(&info)) reason = info.reason();
      if (detail.UnpackTo(&problem)) problems.push_back(problem);
    }
  }
  std::string message = status.error_message();
  if (reason.empty() && code == absl::StatusCode::kUnavailable) {
    message =
        absl::StrCat("coordinator ", server, ": does not answer (", message,
                     "); start one with pipecoord or pipectl local up, "
                     "or name it with --server");
  }
  if (reason.empty() && code == absl::StatusCode::kDeadlineExceeded) {
    message = absl::StrCat("coordinator ", server,
                           ": no answer in time; see --timeout");
  }
  absl::Status out(code, message);
  if (!reason.empty()) SetReason(reason, &out);
  if (!problems.empty()) SetProblems(problems, &out);
  return out;
}

// Ends a stream's context when asked to: by the user, or when nothing has
// come for too long.
class Guard {
 public:
  Guard(grpc::ClientContext* context, const std::function<bool()>& interrupted,
        double quiet_seconds)
      : thread_([this, context, &interrupted, quiet_seconds] {
          int ticks = 0;
          while (!done_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            if (fed_.exchange(false)) ticks = 0;
            if (interrupted && interrupted()) {
              was_interrupted_ = true;
              context->TryCancel();
              return;
            }
            if (quiet_seconds > 0 && ++ticks > 10 * quiet_seconds) {
              was_quiet_ = true;
              context->TryCancel();
              return;
            }
          }
        }) {}
  ~Guard() {
    done_ = true;
    thread_.join();
  }
  void Feed() { fed_ = true; }
  bool was_interrupted() const { return was_interrupted_; }
  bool was_quiet() const { return was_quiet_; }

 private:
  std::atomic<bool> done_{false};
  std::atomic<bool> fed_{false};
  std::atomic<bool> was_interrupted_{false};
  std::atomic<bool> was_quiet_{false};
  std::thread thread_;  // last: it uses the others
};

// Reads a stream to its end.
template <typename Message>
absl::Status ReadStream(grpc::ClientContext* context,
                        grpc::ClientReader<Message>* reader,
                        const std::function<bool(const Message&)>& on,
                        const std::function<bool()>& interrupted,
                        double quiet_seconds, const std::string& server) {
  bool enough = false;
  grpc::Status status;
  bool was_interrupted = false;
  bool was_quiet = false;
  {
    Guard guard(context, interrupted, quiet_seconds);
    Message message;
    while (!enough && reader->Read(&message)) {
      guard.Feed();
      enough = !on(message);
    }
    if (enough) context->TryCancel();
    status = reader->Finish();
    was_interrupted = guard.was_interrupted();
    was_quiet = guard.was_quiet();
  }
  if (enough) return absl::OkStatus();
  if (was_interrupted) return absl::CancelledError("interrupted");
  if (was_quiet) {
    return absl::UnavailableError(absl::StrCat(
        "coordinator ", server, ": silent for ", quiet_seconds, " s"));
  }
  return FromGrpc(status, server);
}

}  // namespace

struct Client::Stubs {
  explicit Stubs(const Options& options) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    arguments.SetMaxSendMessageSize(kMaxMessageBytes);
    arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxErrorBytes);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    // Only what is safe to do twice: mutations carry a request id.
    arguments.SetServiceConfigJSON(R"({"methodConfig": [{
        "name": [{}], "retryPolicy": {"maxAttempts": 4,
        "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"]}}]})");
    channel = grpc::CreateCustomChannel(
        options.server, grpc::InsecureChannelCredentials(), arguments);
    jobs = v1::JobService::NewStub(channel);
    plans = v1::PlanService::NewStub(channel);
    profiles = v1::ProfileService::NewStub(channel);
    pipelines = v1::PipelineService::NewStub(channel);
    cluster = v1::ClusterService::NewStub(channel);
    health = grpc::health::v1::Health::NewStub(channel);
  }

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::JobService::Stub> jobs;
  std::unique_ptr<v1::PlanService::Stub> plans;
  std::unique_ptr<v1::ProfileService::Stub> profiles;
  std::unique_ptr<v1::PipelineService::Stub> pipelines;
  std::unique_ptr<v1::ClusterService::Stub> cluster;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

namespace {

void Prepare(const Client::Options& options, bool deadline,
             grpc::ClientContext* context) {
  if (deadline) context->set_deadline(After(options.timeout_seconds));
  if (!options.token.empty()) {
    context->AddMetadata("authorization",
                         absl::StrCat("Bearer ", options.token));
  }
}

// One unary call.
template <typename Reply, typename Request, typename Method>
absl::StatusOr<Reply> Call(const Client::Options& options,
                           const Request& request, const Method& method) {
  grpc::ClientContext context;
  Prepare(options, true, &context);
  Reply reply;
  const absl::Status status =
      FromGrpc(method(&context, request, &reply), options.server);
  if (!status.ok()) return status;
  return reply;
}

}  // namespace

Client::Client(Options options)
    : options_(std::move(options)), stubs_(std::make_unique<Stubs>(options_)) {}

Client::~Client() = default;

absl::StatusOr<v1::Job> Client::CreateJob(const v1::CreateJobRequest& request) {
  return Call<v1::Job>(options_, request, [this](auto* c, auto& q, auto* r) {
    return stubs_->jobs->CreateJob(c, q, r);
  });
}

absl::StatusOr<v1::Job> Client::GetJob(const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  return Call<v1::Job>(options_, request, [this](auto* c, auto& q, auto* r) {
    return stubs_->jobs->GetJob(c, q, r);
  });
}

absl::StatusOr<v1::ListJobsResponse> Client::ListJobs(
    const v1::ListJobsRequest& request) {
  return Call<v1::ListJobsResponse>(options_, request,
                                    [this](auto* c, auto& q, auto* r) {
                                      return stubs_->jobs->ListJobs(c, q, r);
                                    });
}

absl::StatusOr<v1::Job> Client::CancelJob(const v1::CancelJobRequest& request) {
  return Call<v1::Job>(options_, request, [this](auto* c, auto& q, auto* r) {
    return stubs_->jobs->CancelJob(c, q, r);
  });
}

absl::StatusOr<v1::Plan> Client::PlanJob(const v1::PlanJobRequest& request) {
  return Call<v1::Plan>(options_, request, [this](auto* c, auto& q, auto* r) {
    return stubs_->plans->PlanJob(c, q, r);
  });
}

absl::StatusOr<v1::RunProfileResponse> Client::RunProfile(
    const v1::RunProfileRequest& request) {
  return Call<v1::RunProfileResponse>(
      options_, request, [this](auto* c, auto& q, auto* r) {
        return stubs_->profiles->RunProfile(c, q, r);
      });
}

absl::StatusOr<v1::ListProfilesResponse> Client::ListProfiles() {
  return Call<v1::ListProfilesResponse>(
      options_, v1::ListProfilesRequest(), [this](auto* c, auto& q, auto* r) {
        return stubs_->profiles->ListProfiles(c, q, r);
      });
}

absl::StatusOr<v1::StoredProfile> Client::GetProfile(
    const std::string& profile) {
  v1::GetProfileRequest request;
  request.set_profile(profile);
  return Call<v1::StoredProfile>(options_, request,
                                 [this](auto* c, auto& q, auto* r) {
                                   return stubs_->profiles->GetProfile(c, q, r);
                                 });
}

absl::Status Client::DeleteProfile(const std::string& profile) {
  v1::DeleteProfileRequest request;
  request.set_profile(profile);
  return Call<v1::DeleteProfileResponse>(
             options_, request,
             [this](auto* c, auto& q, auto* r) {
               return stubs_->profiles->DeleteProfile(c, q, r);
             })
      .status();
}

absl::StatusOr<v1::PipelineStatus> Client::GetPipelineStatus(
    const std::string& job) {
  v1::GetPipelineStatusRequest request;
  request.set_job(job);
  return Call<v1::PipelineStatus>(
      options_, request, [this](auto* c, auto& q, auto* r) {
        return stubs_->pipelines->GetPipelineStatus(c, q, r);
      });
}

absl::StatusOr<v1::ListNodesResponse> Client::ListNodes() {
  return Call<v1::ListNodesResponse>(
      options_, v1::ListNodesRequest(), [this](auto* c, auto& q, auto* r) {
        return stubs_->cluster->ListNodes(c, q, r);
      });
}

absl::StatusOr<v1::ServerInfo> Client::GetServerInfo() {
  return Call<v1::ServerInfo>(options_, v1::GetServerInfoRequest(),
                              [this](auto* c, auto& q, auto* r) {
                                return stubs_->cluster->GetServerInfo(c, q, r);
                              });
}

absl::StatusOr<bool> Client::Health(const std::string& service) {
  using grpc::health::v1::HealthCheckResponse;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  absl::StatusOr<HealthCheckResponse> reply = Call<HealthCheckResponse>(
      options_, request, [this](auto* c, auto& q, auto* r) {
        return stubs_->health->Check(c, q, r);
      });
  if (!reply.ok()) return reply.status();
  return reply->status() == HealthCheckResponse::SERVING;
}

absl::Status Client::WatchJob(
    const std::string& job,
    const std::function<bool(const v1::WatchJobsResponse&)>& on,
    const std::function<bool()>& interrupted, double quiet_seconds) {
  grpc::ClientContext context;
  Prepare(options_, false, &context);
  v1::WatchJobsRequest request;
  request.set_job(job);
  const auto reader = stubs_->jobs->WatchJobs(&context, request);
  return ReadStream<v1::WatchJobsResponse>(
      &context, reader.get(), on, interrupted, quiet_seconds, options_.server);
}

absl::Status Client::StreamLogs(
    const v1::StreamLogsRequest& request,
    const std::function<bool(const v1::LogChunk&)>& on,
    const std::function<bool()>& interrupted) {
  grpc::ClientContext context;
  Prepare(options_, false, &context);
  const auto reader = stubs_->jobs->StreamLogs(&context, request);
  return ReadStream<v1::LogChunk>(
      &context, reader.get(), on, interrupted,
      request.follow() ? 60 : options_.timeout_seconds, options_.server);
}

}  // namespace pipework
