// NodeControl: the session of each node, and shards to and fro.
#ifndef PIPEWORK_DAEMON_COORDINATOR_NODE_SERVICE_H_
#define PIPEWORK_DAEMON_COORDINATOR_NODE_SERVICE_H_

#include "daemon/coordinator/auth.h"
#include "daemon/coordinator/core.h"
#include "proto/node.grpc.pb.h"

namespace pipework {

class NodeServiceImpl final : public v1::NodeControl::Service {
 public:
  NodeServiceImpl(CoordinatorCore& core, const TokenGate& gate)
      : core_(core), gate_(gate) {}

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::NodeMessage>* stream)
      override;
  grpc::Status PutShard(grpc::ServerContext* context,
                        grpc::ServerReader<v1::ShardChunk>* reader,
                        v1::PutShardResponse* reply) override;
  grpc::Status GetShard(grpc::ServerContext* context,
                        const v1::GetShardRequest* request,
                        grpc::ServerWriter<v1::ShardChunk>* writer) override;

 private:
  absl::Status ReceiveShard(grpc::ServerContext* context,
                            grpc::ServerReader<v1::ShardChunk>* reader);
  // The rest of ReceiveShard, after its first chunk.
  absl::Status StoreShard(grpc::ServerContext* context,
                          grpc::ServerReader<v1::ShardChunk>* reader,
                          v1::ShardChunk chunk);

  CoordinatorCore& core_;
  const TokenGate& gate_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_NODE_SERVICE_H_
