// YAML or JSON text -> JobSpec, with every problem of the text at once.
#ifndef PIPEWORK_DAEMON_SPEC_SPEC_H_
#define PIPEWORK_DAEMON_SPEC_SPEC_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/models/registry.h"
#include "proto/coordinator.pb.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "proto/profile.pb.h"

namespace pipework {

struct ParsedSpec {
  v1::JobSpec spec;                   // defaults filled in; meaningful when
                                      // problems is empty
  std::vector<v1::Problem> problems;  // sorted by line; those of --set last
  std::string file;                   // as it was given
  std::map<std::string, int> lines;   // of the fields that were given, by
                                      // path; 0: given by --set
};

// Strict reading: syntax, duplicate and unknown keys (nearest name as hint),
// anchors, aliases, second documents, wrong types; then every check that needs
// no data and no cluster. `sets` are "a.b=value" from --set, applied before
// the checks (their problems have file "--set"): a list, a map or a quoted word
// is read as YAML, any other value is taken as it stands, null removes the
// field. `file` names the text in problems; without a name of its own the job
// is called as it is.
ParsedSpec ParseSpec(absl::string_view text, const std::string& file,
                     absl::Span<const std::string> sets);

// Reads the file first. A file that cannot be opened is InvalidArgument with
// payload-free message (exit code 2 for the caller).
absl::StatusOr<ParsedSpec> ReadSpec(const std::string& file,
                                    absl::Span<const std::string> sets);

// Paths of spec.data made absolute: data.dir against the folder of
// `spec_file`, sources against data.dir.
void MakePathsAbsolute(const std::string& spec_file, v1::JobSpec* spec);

// The graph of a spec: built-in or inline, checked with InferGraph.
// InvalidArgument: the first problem of CheckModel, in one line.
absl::StatusOr<v1::Graph> GraphOf(const v1::JobSpec& spec,
                                  const ModelEnds& ends);

// Every problem of the network for data of these ends, with the field of its
// layer or argument; and pinned stages against its layers.
std::vector<v1::Problem> CheckModel(const v1::JobSpec& spec,
                                    const ModelEnds& ends);

// Checks that need the data's facts: minibatch against samples, classes
// against the network's outputs, stages against layers.
std::vector<v1::Problem> CheckAgainstData(const v1::JobSpec& spec,
                                          const v1::Graph& graph,
                                          int64_t train_samples,
                                          int64_t test_samples);

// The server's form of a spec's checks (no text, no lines). A field that is 0
// or empty counts as left out.
std::vector<v1::Problem> CheckSpec(const v1::JobSpec& spec);

// Problems that were found later, with the file and line of their fields.
void AddProblems(const std::vector<v1::Problem>& more, ParsedSpec* parsed);

// One line a problem:
//   bad.yaml:14  pipeline.schedule  got "2f2b", expected one of 1f1b, flush
std::string FormatProblem(const v1::Problem& problem);

// Documentation of a field ("" is the whole spec) from the proto comments:
// type, default, text, and its sub-fields. NotFound suggests the nearest name.
absl::StatusOr<std::string> ExplainField(absl::string_view path,
                                         bool recursive);

// The spec in its YAML form, as `show --spec` prints it; ParseSpec of it
// gives the same spec.
std::string SpecToYaml(const v1::JobSpec& spec);

// A profile from operations and bytes per layer alone, marked estimated: what
// `pipectl plan` uses where nothing was measured.
absl::StatusOr<v1::Profile> EstimateProfile(const v1::Graph& graph,
                                            int64_t batch);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_SPEC_H_
