// Linked in --config=testing.
#include "daemon/executor/break_mode.h"
#include "proto/errors.h"

namespace pipework {

absl::StatusOr<BreakMode> ParseBreakMode(const std::string& name) {
  if (name.empty()) return BreakMode::kNone;
  if (name == "version") return BreakMode::kVersion;
  if (name == "label") return BreakMode::kLabel;
  if (name == "scale") return BreakMode::kScale;
  if (name == "order") return BreakMode::kOrder;
  if (name == "newest") return BreakMode::kNewest;
  if (name == "stash") return BreakMode::kStash;
  return Mismatch("break mode", "name", name,
                  "version, label, scale, order, newest or stash");
}

}  // namespace pipework
