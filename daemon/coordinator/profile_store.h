// Profiles as the coordinator keeps them: a text file for each graph, batch and
// kind of device below STATE/profiles, which outlives the process.
//
// Threads: any; a file is replaced whole.
#ifndef PIPEWORK_DAEMON_COORDINATOR_PROFILE_STORE_H_
#define PIPEWORK_DAEMON_COORDINATOR_PROFILE_STORE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "proto/profile.pb.h"

namespace pipework {

class ProfileStore {
 public:
  explicit ProfileStore(const std::string& state_dir)
      : folder_(state_dir + "/profiles") {}

  // What a profile is kept under: graph, samples of a unit, threads, optimizer
  // and kind of device.
  static std::string KeyOf(const v1::JobSpec& spec, const v1::Graph& graph,
                           const std::string& kind);
  // p- and six letters or digits that follow from the key.
  static std::string IdOf(const std::string& key);

  // NotFound: not measured yet, or what lies there is no profile.
  absl::StatusOr<v1::Profile> Read(const std::string& key) const;
  // Unavailable: names file and cause.
  absl::Status Write(const std::string& key, const v1::Profile& profile) const;

  // Newest first, without layers.
  std::vector<v1::StoredProfile> List() const;
  // By id or a unique prefix of at least four characters. NotFound;
  // InvalidArgument: the prefix fits several.
  absl::StatusOr<v1::StoredProfile> Find(const std::string& ref) const;
  // By full id. NotFound.
  absl::Status Remove(const std::string& id) const;

 private:
  std::string PathOf(const std::string& key) const;
  std::vector<std::string> Keys() const;

  const std::string folder_;
};

// With its sums and its id.
v1::StoredProfile AsStored(const std::string& key, v1::Profile profile);

// "profile p-7kq2mf: 3 h old, measured on n1/cpu:0 (cpu x1 avx512)".
std::string DescribeAge(const std::string& key, const v1::Profile& profile,
                        absl::Time now);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_PROFILE_STORE_H_
