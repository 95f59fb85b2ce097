// JobService: submit, look, follow, cancel, logs.
#ifndef PIPEWORK_DAEMON_COORDINATOR_JOB_SERVICE_H_
#define PIPEWORK_DAEMON_COORDINATOR_JOB_SERVICE_H_

#include "daemon/coordinator/auth.h"
#include "daemon/coordinator/core.h"
#include "proto/coordinator.grpc.pb.h"

namespace pipework {

class JobServiceImpl final : public v1::JobService::Service {
 public:
  JobServiceImpl(CoordinatorCore& core, const TokenGate& gate)
      : core_(core), gate_(gate) {}

  grpc::Status CreateJob(grpc::ServerContext* context,
                         const v1::CreateJobRequest* request,
                         v1::Job* reply) override;
  grpc::Status GetJob(grpc::ServerContext* context,
                      const v1::GetJobRequest* request,
                      v1::Job* reply) override;
  grpc::Status ListJobs(grpc::ServerContext* context,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* reply) override;
  grpc::Status WatchJobs(
      grpc::ServerContext* context, const v1::WatchJobsRequest* request,
      grpc::ServerWriter<v1::WatchJobsResponse>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext* context,
                         const v1::CancelJobRequest* request,
                         v1::Job* reply) override;
  grpc::Status StreamLogs(grpc::ServerContext* context,
                          const v1::StreamLogsRequest* request,
                          grpc::ServerWriter<v1::LogChunk>* writer) override;

 private:
  grpc::Status WatchOne(grpc::ServerContext* context, const std::string& id,
                        int64_t since,
                        grpc::ServerWriter<v1::WatchJobsResponse>* writer);
  grpc::Status WatchAll(grpc::ServerContext* context,
                        grpc::ServerWriter<v1::WatchJobsResponse>* writer);

  CoordinatorCore& core_;
  const TokenGate& gate_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_JOB_SERVICE_H_
