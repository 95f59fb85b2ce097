// LinkRun is a runner's part in a measurement of the links between nodes: a
// data plane of its own that listens, then the pairs of its node.
#ifndef PIPEWORK_DAEMON_RUNNER_LINK_RUN_H_
#define PIPEWORK_DAEMON_RUNNER_LINK_RUN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/transport/transport.h"
#include "proto/node.pb.h"

namespace pipework {

class LinkRun {
 public:
  // Listens. Errors are the data plane's.
  static absl::StatusOr<std::unique_ptr<LinkRun>> Listen(
      const v1::RunnerLinks& request, const std::string& transport);

  std::string address() const { return plane_->address(); }

  // Connects to the nodes that it has a pair with, whose addresses are in
  // `placement`, and measures. InvalidArgument: an address is missing.
  absl::StatusOr<v1::RunnerReport::Links> Measure(
      const v1::Placement& placement, absl::Time deadline);

 private:
  LinkRun() = default;

  v1::RunnerLinks request_;
  std::shared_ptr<Allocator> allocator_;
  std::unique_ptr<DataPlane> plane_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_LINK_RUN_H_
