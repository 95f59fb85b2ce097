// What a job's data files say: counts and shapes. Node daemons answer the
// coordinator with it; `pipectl plan` asks it here.
#ifndef PIPEWORK_DAEMON_SPEC_DATA_FACTS_H_
#define PIPEWORK_DAEMON_SPEC_DATA_FACTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/models/registry.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace pipework {

// Opens and checks every data file of `spec` (OpenData's errors).
// REQUIRES: absolute paths.
absl::StatusOr<v1::DataFacts> DataFactsOf(const v1::JobSpec& spec);

// The part of the facts that a built-in network is shaped by.
ModelEnds EndsOf(const v1::DataFacts& facts);

// What the data of a spec without problems adds to them, where the data is on
// this machine: a file that is wrong, layers that do not fit its shapes,
// numbers that do not fit its size.
struct DataCheck {
  std::vector<v1::Problem> problems;
  // Not empty: this file is not here, and it is the only problem.
  std::string missing;
};
// REQUIRES: absolute paths.
DataCheck CheckWithData(const v1::JobSpec& spec);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_DATA_FACTS_H_
