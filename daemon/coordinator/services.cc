#include "daemon/coordinator/services.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include <atomic>

#include "daemon/coordinator/call.h"
#include "daemon/coordinator/job_service.h"
#include "daemon/coordinator/node_service.h"
#include "proto/health.grpc.pb.h"
#include "proto/version.h"

namespace pipework {
namespace {

constexpr absl::Duration kLongestProfile = absl::Minutes(10);

class PlanServiceImpl final : public v1::PlanService::Service {
 public:
  PlanServiceImpl(CoordinatorCore& core, const TokenGate& gate)
      : core_(core), gate_(gate) {}

  grpc::Status PlanJob(grpc::ServerContext* context,
                       const v1::PlanJobRequest* request,
                       v1::Plan* reply) override {
    PIPE_GATE(gate_, context);
    return Reply(core_.PlanJob(*request, DeadlineOf(*context)), reply);
  }

 private:
  CoordinatorCore& core_;
  const TokenGate& gate_;
};

class ProfileServiceImpl final : public v1::ProfileService::Service {
 public:
  ProfileServiceImpl(CoordinatorCore& core, const TokenGate& gate)
      : core_(core), gate_(gate) {}

  grpc::Status RunProfile(grpc::ServerContext* context,
                          const v1::RunProfileRequest* request,
                          v1::RunProfileResponse* reply) override {
    PIPE_GATE(gate_, context);
    return Reply(
        core_.RunProfile(*request, DeadlineOf(*context, kLongestProfile)),
        reply);
  }

  grpc::Status ListProfiles(grpc::ServerContext* context,
                            const v1::ListProfilesRequest*,
                            v1::ListProfilesResponse* reply) override {
    PIPE_GATE(gate_, context);
    for (v1::StoredProfile& profile : core_.profiles().List()) {
      *reply->add_profiles() = std::move(profile);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetProfile(grpc::ServerContext* context,
                          const v1::GetProfileRequest* request,
                          v1::StoredProfile* reply) override {
    PIPE_GATE(gate_, context);
    return Reply(core_.profiles().Find(request->profile()), reply);
  }

  grpc::Status DeleteProfile(grpc::ServerContext* context,
                             const v1::DeleteProfileRequest* request,
                             v1::DeleteProfileResponse*) override {
    PIPE_GATE(gate_, context);
    return ToRpc(core_.profiles().Remove(request->profile()));
  }

 private:
  CoordinatorCore& core_;
  const TokenGate& gate_;
};

class PipelineServiceImpl final : public v1::PipelineService::Service {
 public:
  PipelineServiceImpl(CoordinatorCore& core, const TokenGate& gate)
      : core_(core), gate_(gate) {}

  grpc::Status GetPipelineStatus(grpc::ServerContext* context,
                                 const v1::GetPipelineStatusRequest* request,
                                 v1::PipelineStatus* reply) override {
    PIPE_GATE(gate_, context);
    const auto found = core_.board().Find(request->job(), /*exact=*/false);
    if (!found.ok()) return ToRpc(found.status());
    const v1::Job& job = **found;
    reply->set_job(job.id());
    reply->set_name(job.name());
    reply->set_state(job.state());
    reply->set_step(job.step());
    reply->set_total_steps(job.total_steps());
    *reply->mutable_stages() = job.stages();
    reply->set_revision(job.revision());
    *reply->mutable_summary() = job;
    reply->mutable_summary()->clear_spec();
    reply->mutable_summary()->clear_plan();
    return grpc::Status::OK;
  }

 private:
  CoordinatorCore& core_;
  const TokenGate& gate_;
};

class ClusterServiceImpl final : public v1::ClusterService::Service {
 public:
  ClusterServiceImpl(CoordinatorCore& core, const TokenGate& gate)
      : core_(core), gate_(gate), started_(MonotonicNow()) {}

  grpc::Status GetServerInfo(grpc::ServerContext* context,
                             const v1::GetServerInfoRequest*,
                             v1::ServerInfo* reply) override {
    PIPE_GATE(gate_, context);
    reply->set_version(kVersion);
    reply->set_uptime_seconds(absl::ToDoubleSeconds(MonotonicNow() - started_));
    reply->set_state_dir(core_.state_dir());
    int ready = 0;
    for (const v1::Node& node : core_.board().Nodes()) {
      ready += node.state() == "READY" ? 1 : 0;
    }
    reply->set_ready_nodes(ready);
    for (const char* feature : {"jobs", "watch", "logs", "plan", "profiles",
                                "checkpoints", "restart"}) {
      reply->add_features(feature);
    }
    return grpc::Status::OK;
  }

  grpc::Status ListNodes(grpc::ServerContext* context,
                         const v1::ListNodesRequest*,
                         v1::ListNodesResponse* reply) override {
    PIPE_GATE(gate_, context);
    for (v1::Node& node : core_.board().Nodes()) {
      *reply->add_nodes() = std::move(node);
    }
    return grpc::Status::OK;
  }

 private:
  CoordinatorCore& core_;
  const TokenGate& gate_;
  const absl::Time started_;
};

// The standard health protocol; open to all, since probes carry no token.
class HealthImpl final : public grpc::health::v1::Health::Service {
 public:
  explicit HealthImpl(CoordinatorCore& core) : core_(core) {}

  void StopServing() { serving_ = false; }

  grpc::Status Check(grpc::ServerContext*,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* reply) override {
    if (!Known(request->service())) {
      return grpc::Status(grpc::StatusCode::NOT_FOUND,
                          "there is no such service here");
    }
    reply->set_status(Now());
    return grpc::Status::OK;
  }

  grpc::Status Watch(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>*
                         writer) override {
    using Response = grpc::health::v1::HealthCheckResponse;
    JobBoard& board = core_.board();
    Response::ServingStatus last = Response::UNKNOWN;
    for (;;) {
      const int64_t seen = board.Change();
      const auto now =
          Known(request->service()) ? Now() : Response::SERVICE_UNKNOWN;
      if (now != last) {
        Response response;
        response.set_status(now);
        if (!writer->Write(response)) break;
        last = now;
      }
      if (board.closed() || context->IsCancelled()) break;
      board.WaitForChange(seen, MonotonicNow() + absl::Milliseconds(500));
    }
    return grpc::Status::OK;
  }

 private:
  static bool Known(const std::string& service) {
    for (const char* name :
         {"", "pipework.v1.JobService", "pipework.v1.PlanService",
          "pipework.v1.ProfileService", "pipework.v1.PipelineService",
          "pipework.v1.ClusterService", "pipework.v1.NodeControl",
          "grpc.health.v1.Health"}) {
      if (service == name) return true;
    }
    return false;
  }
  grpc::health::v1::HealthCheckResponse::ServingStatus Now() const {
    using Response = grpc::health::v1::HealthCheckResponse;
    return serving_ && core_.board().Trouble().empty() ? Response::SERVING
                                                       : Response::NOT_SERVING;
  }

  CoordinatorCore& core_;
  std::atomic<bool> serving_{true};
};

}  // namespace

struct Services::All {
  All(CoordinatorCore& core, const TokenGate& gate)
      : jobs(core, gate),
        plans(core, gate),
        profiles(core, gate),
        pipelines(core, gate),
        cluster(core, gate),
        nodes(core, gate),
        health(core) {}

  JobServiceImpl jobs;
  PlanServiceImpl plans;
  ProfileServiceImpl profiles;
  PipelineServiceImpl pipelines;
  ClusterServiceImpl cluster;
  NodeServiceImpl nodes;
  HealthImpl health;
};

Services::Services(CoordinatorCore& core, const TokenGate& gate)
    : all_(std::make_unique<All>(core, gate)), gate_(gate) {}

Services::~Services() = default;

void Services::Register(grpc::ServerBuilder* builder) {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  builder->RegisterService(&all_->jobs);
  builder->RegisterService(&all_->plans);
  builder->RegisterService(&all_->profiles);
  builder->RegisterService(&all_->pipelines);
  builder->RegisterService(&all_->cluster);
  builder->RegisterService(&all_->nodes);
  builder->RegisterService(&all_->health);
  gate_.Guard(builder);
}

void Services::StopServing() { all_->health.StopServing(); }

}  // namespace pipework
