// What `pipectl plan` plans for and with, from its flags and files.
#ifndef PIPEWORK_CLI_COMMANDS_PLAN_INPUTS_H_
#define PIPEWORK_CLI_COMMANDS_PLAN_INPUTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "proto/job.pb.h"
#include "proto/placement.pb.h"
#include "proto/plan.pb.h"
#include "proto/profile.pb.h"
#include "scheduler/planning/planning.h"

namespace pipework {

// The content of a file that the command line names. UsageError (exit code 2):
// it cannot be opened or read. InvalidArgument: larger than `most` bytes.
absl::StatusOr<std::string> ReadNamedFile(const std::string& file,
                                          int64_t most);

// --topology, or --devices with --bandwidth and --latency; expanded. Devices of
// --devices are CPU cores, or GPUs where `profile_kind` is no processor.
absl::StatusOr<v1::Topology> TopologyOf(const Invocation& invocation,
                                        const std::string& profile_kind);

// Every --profile, in order; text proto or graph.txt. --profile-batch says how
// many samples a minibatch of a graph.txt has.
absl::StatusOr<std::vector<v1::Profile>> ProfilesOf(
    const Invocation& invocation);

// --cost-model, --alternatives, --max-stages, --straight, ..., but for the
// profiles.
absl::StatusOr<PlanningOptions> PlanningOptionsOf(const Invocation& invocation);

// A spec that says nothing but how `profile` is run: one minibatch of its size
// (--minibatch), 1f1b, sgd.
absl::StatusOr<v1::JobSpec> SpecOfProfile(const Invocation& invocation,
                                          const v1::Profile& profile);

// --stages and --in-flight into `spec`.
absl::Status SetPipeline(const Invocation& invocation, v1::JobSpec* spec);

// Pins the stages of `spec` to those of the plan in `file`, which `pipectl plan
// -o json` printed: layers, replicas, devices, shares, in flight.
// UsageError: `file` cannot be opened. InvalidArgument: no such plan, one that
// is not feasible, or one for another schedule, policy or number of
// microbatches than the spec's.
absl::Status PinPlan(const std::string& file, v1::JobSpec* spec);

// `status`, its problems with what PinPlan pinned placed in `file`.
absl::Status PlaceInPlan(const std::string& file, absl::Status status);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_PLAN_INPUTS_H_
