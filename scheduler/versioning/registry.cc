// The table of weight policies. A new one is a file pair in this folder and a
// line here.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/versioning/newest.h"
#include "scheduler/versioning/policy.h"
#include "scheduler/versioning/stash.h"
#include "scheduler/versioning/two_version.h"
#include "scheduler/versioning/vertical_sync.h"

namespace pipework {
namespace {

constexpr PolicyEntry kPolicies[] = {
    {"stash", "a backward reads the version that its forward read", &Stashing},
    {"vertical_sync", "one version on all stages for each minibatch",
     &VerticalSync},
    {"none", "no stashing: always the newest, for comparison", &NewestWeights},
    {"flush", "one version, changed while nothing is in flight",
     &NewestWeights},
    {"two_version", "the weights of one update before, double-buffered",
     &TwoVersions},
};

}  // namespace

absl::Span<const PolicyEntry> Policies() { return kPolicies; }

absl::StatusOr<const Policy*> FindPolicy(absl::string_view name) {
  std::vector<absl::string_view> known;
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return entry.get();
    known.push_back(entry.name);
  }
  return absl::NotFoundError(absl::StrCat(
      "weight policy \"", name,
      "\" is not known; known policies: ", absl::StrJoin(known, ", ")));
}

}  // namespace pipework
