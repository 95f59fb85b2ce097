// What commands share: which spec, which server, which folder.
#ifndef PIPEWORK_CLI_CONTEXT_H_
#define PIPEWORK_CLI_CONTEXT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/command.h"
#include "daemon/coordinator/job_store.h"
#include "proto/job.pb.h"

namespace pipework {

// --state-dir, else ./pipework-state; absolute.
std::string StateDir(const Invocation& invocation);

// Whether a spec is also checked against its data, which may be on other
// machines only.
enum class DataHere { kNotRead, kWhereItIs, kNeeded };

// Reads the spec `file` ("-": standard input) with every --set. On problems
// prints them and returns their exit code; 0: `spec` is good, its paths
// absolute, `path` the file's absolute name.
int LoadSpec(Invocation& invocation, const std::string& file, v1::JobSpec* spec,
             std::string* path, DataHere data = DataHere::kNotRead);

// Prints what a server said of that spec, with the file and line of each
// field; returns the exit code.
int SpecError(const Invocation& invocation, const absl::Status& status);

// --server, PIPEWORK_SERVER, the cluster of `local up` in the state folder,
// 127.0.0.1:7070. InvalidArgument: a token file that cannot be read, or a bad
// --timeout.
absl::StatusOr<std::unique_ptr<Client>> MakeClient(
    const Invocation& invocation);

// Where jobs are read from: a server, or a state folder without one.
struct JobSource {
  std::unique_ptr<Client> client;  // one of the two
  std::unique_ptr<JobStoreReader> reader;
  std::string state_dir;  // of the reader

  absl::StatusOr<v1::Job> FindJob(const std::string& ref);
};
// A server when one is named or answers for the state folder; else the folder
// if it has jobs; else the default server.
absl::StatusOr<JobSource> FindJobs(const Invocation& invocation);

// A random request id.
std::string NewRequestId();

// The folder of a checkpoint: a folder as it stands, JOB (its newest complete
// one) or JOB/STEP.
absl::StatusOr<std::string> FindCheckpoint(const Invocation& invocation,
                                           const std::string& ref);

}  // namespace pipework

#endif  // PIPEWORK_CLI_CONTEXT_H_
