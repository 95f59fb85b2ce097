// Nodes as the coordinator knows them: sessions, leases, devices, and which
// job owns which device. Pure: no threads, no gRPC; time comes as an argument
// and is monotonic.
#ifndef PIPEWORK_DAEMON_COORDINATOR_CLUSTER_H_
#define PIPEWORK_DAEMON_COORDINATOR_CLUSTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/coordinator/job_record.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"
#include "proto/placement.pb.h"

namespace pipework {

struct LeaseLimits {
  absl::Duration heartbeat = absl::Seconds(2);
  // Without a message for so long a node is SUSPECT: nothing new goes there.
  absl::Duration suspect = absl::Seconds(6);
  // ... and for so long it is LOST: what it ran has failed.
  absl::Duration lost = absl::Seconds(15);
  // A node whose connection was closed is back within this, or its daemon is
  // gone. (A partition closes nothing, and has until `lost`.)
  absl::Duration closed = absl::Seconds(3);
};

enum class LeaseState { kReady, kSuspect, kLost };
const char* LeaseStateName(LeaseState state);

class Cluster {
 public:
  explicit Cluster(LeaseLimits limits) : limits_(limits) {}

  // What Register found out.
  struct Registration {
    uint64_t session = 0;
    // Its daemon is another process than at its last registration.
    bool restarted = false;
  };
  // AlreadyExists: another daemon of that name is alive. InvalidArgument: the
  // hello itself is wrong.
  absl::StatusOr<Registration> Register(const v1::Hello& hello, absl::Time now);

  // A node that is expected to come back, after a restart of the coordinator.
  void Expect(const std::string& node, uint64_t incarnation, absl::Time now);

  // Any message of a session; false: the session is not in force (any more).
  bool Heard(const std::string& node, uint64_t session, absl::Time now);
  // Its daemon is going to stop: nothing new goes there, and it is LOST as
  // soon as its session ends.
  void SetLeaving(const std::string& node);
  // The stream of a session ended.
  void SessionClosed(const std::string& node, uint64_t session, absl::Time now);

  struct LostNode {
    std::string node;
    uint64_t session = 0;
    std::string why;  // one line
  };
  // For so long, up to `now`, nobody could be heard here. Nodes that gave their
  // session up meanwhile, or do so soon, have until `lost` to come back: they
  // dial again slowly by now.
  void Forgive(absl::Duration nap, absl::Time now);
  // Leases that ran out since the last call.
  std::vector<LostNode> Tick(absl::Time now);

  LeaseState StateOf(const std::string& node) const;
  bool Connected(const std::string& node) const;
  // READY nodes with a session, by name.
  std::vector<std::string> ReadyNodes() const;

  // ---- devices, named NODE/DEVICE ----

  // Usable devices of READY nodes that nobody owns, or `job` does.
  v1::Topology FreeFor(const std::string& job) const;
  // Usable devices of all nodes that are not LOST, whoever owns them.
  v1::Topology Whole() const;
  static int CountDevices(const v1::Topology& topology);

  // PIPE_CHECKs that nobody else owns one.
  void Own(const std::string& job, absl::Span<const std::string> devices);
  void ReleaseAll(const std::string& job);
  // Stranded ones too.
  void ReleaseOn(const std::string& job, const std::string& node);
  void ReleaseStranded(const std::string& job, const std::string& node);
  // What `job` owns on `node` stays taken, by nobody who could use it.
  void Strand(const std::string& job, const std::string& node);
  // Gives back what `job` owns beside `keep`.
  void ReleaseBut(const std::string& job, absl::Span<const std::string> keep);
  std::vector<std::string> OwnedBy(const std::string& job) const;
  // Whoever owns a device of a node, as ReleaseOn takes it.
  std::vector<std::string> OwnersOn(const std::string& node) const;
  // Other jobs that own devices, by id.
  std::vector<std::string> Owners(absl::string_view but) const;

  // ---- links ----

  // What was measured before, at the start; and all that is known now.
  void LoadLinks(const v1::LinkTable& table);
  v1::LinkTable Links() const;
  // Replaces what was known of this pair of nodes. Nodes that are not known
  // are ignored.
  void SetLink(const v1::LinkMeasurement& link);
  // Pairs of nodes of `topology` that should be measured: every pair of up to
  // eight nodes, of more a ring; those that were measured since `since`, with
  // the addresses that the nodes have now, are left out.
  std::vector<std::pair<std::string, std::string>> UnknownLinks(
      const v1::Topology& topology, absl::Time since) const;
  // Sets the links of `topology`: where some were measured, those, and the
  // slowest of them for all others; else constants.
  void FillLinks(v1::Topology* topology) const;

  // As ListNodes shows it.
  std::vector<v1::Node> Describe(absl::Time now) const;
  const v1::Device* FindDevice(const std::string& node,
                               const std::string& device) const;

 private:
  struct Node {
    v1::Hello hello;
    LeaseState state = LeaseState::kReady;
    uint64_t session = 0;  // 0: none
    bool leaving = false;
    bool ever_here = false;  // not only expected
    absl::Time heard;
    absl::Time closed_at = absl::InfiniteFuture();
  };
  v1::Topology Select(bool only_ready, const std::string* free_for) const;
  // nullptr: not measured with the addresses that the nodes have now.
  const v1::LinkMeasurement* FindLink(const std::string& a,
                                      const std::string& b) const;

  const LeaseLimits limits_;
  absl::Time excused_until_ = absl::InfinitePast();
  std::map<std::string, Node> nodes_;
  std::map<std::string, std::string> owners_;  // device -> job
  // By the nodes' names in order.
  std::map<std::pair<std::string, std::string>, v1::LinkTable::Link> links_;
  uint64_t next_session_ = 1;
};

// Whether `host` is an address of this machine alone.
bool IsLoopback(absl::string_view host);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_CLUSTER_H_
