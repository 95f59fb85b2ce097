// Linked unless the build has --config=testing.
#include "absl/strings/str_cat.h"
#include "daemon/executor/break_mode.h"

namespace pipework {

absl::StatusOr<BreakMode> ParseBreakMode(const std::string& name) {
  if (name.empty()) return BreakMode::kNone;
  return absl::UnimplementedError(
      absl::StrCat("break mode \"", name,
                   "\": this binary can break nothing on purpose; rebuild with "
                   "--config=testing"));
}

}  // namespace pipework
