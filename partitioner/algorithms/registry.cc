// The table of partitioners. A new one is a file pair in this folder and a line
// here.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "partitioner/algorithms/fixed_stages.h"
#include "partitioner/algorithms/partitioner.h"
#include "partitioner/algorithms/pipedream_dp.h"

namespace pipework {
namespace {

constexpr PartitionerEntry kPartitioners[] = {
    {"pipedream_dp", "the paper's recurrences over levels of a machine",
     &PipedreamDp},
    {"fixed_stages", "the same on one level with a pinned number of stages",
     &FixedStages},
};

}  // namespace

absl::Span<const PartitionerEntry> Partitioners() { return kPartitioners; }

absl::StatusOr<PartitionFn> FindPartitioner(absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const PartitionerEntry& entry : kPartitioners) {
    if (entry.name == name) return entry.run;
    known.push_back(entry.name);
  }
  return absl::NotFoundError(absl::StrCat(
      "partitioner \"", name,
      "\" is not known; known partitioners: ", absl::StrJoin(known, ", ")));
}

}  // namespace pipework
