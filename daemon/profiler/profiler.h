// The profiler runs every layer of a graph, forward and backward, on a device,
// and measures what the planner needs to know of it.
//
// It touches nothing of any job: weights, buffers and labels are its own, so
// profiling alters neither a run nor its random state. The first rounds, which
// are slow because they are the first, count for nothing. Where the device was
// busy with something else the profile says so (noisy), as each layer does
// whose time moved.
#ifndef PIPEWORK_DAEMON_PROFILER_PROFILER_H_
#define PIPEWORK_DAEMON_PROFILER_PROFILER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/node.pb.h"
#include "proto/profile.pb.h"

namespace pipework {

struct ProfileOptions {
  std::string backend = "cpu";
  // The whole graph is run again and again until this has passed; medians are
  // taken. Zero: 40 ms for each layer, 0.4 to 4 s in all. A network so slow
  // that this means too few rounds gets more time, up to four times as much,
  // and five rounds however long they take.
  absl::Duration budget = absl::ZeroDuration();
  int most_rounds = 2000;
  bool pin = true;  // to the cores of the device
};

// Runs on the calling thread. InvalidArgument: the graph is wrong, or the batch
// is below 1. ResourceExhausted: the network does not fit into the device.
absl::StatusOr<v1::Profile> RunProfile(const v1::RunnerProfile& request,
                                       const ProfileOptions& options);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_PROFILER_PROFILER_H_
