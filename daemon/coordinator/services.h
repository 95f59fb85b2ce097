// The gRPC services of the coordinator, over CoordinatorCore. Synchronous
// handlers: each call has a thread of gRPC's pool, so one that waits delays no
// other.
#ifndef PIPEWORK_DAEMON_COORDINATOR_SERVICES_H_
#define PIPEWORK_DAEMON_COORDINATOR_SERVICES_H_

#include <memory>

#include "absl/time/time.h"
#include "daemon/coordinator/auth.h"
#include "daemon/coordinator/core.h"
#include "grpcpp/server_builder.h"

namespace pipework {

class Services {
 public:
  // Borrows both until the server is shut down.
  Services(CoordinatorCore& core, const TokenGate& gate);
  ~Services();

  // JobService, PlanService, PipelineService, ClusterService, NodeControl,
  // health; reflection, with the gate's interceptor.
  void Register(grpc::ServerBuilder* builder);

  // Health answers NOT_SERVING from now on.
  void StopServing();

 private:
  struct All;
  std::unique_ptr<All> all_;
  const TokenGate& gate_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_SERVICES_H_
