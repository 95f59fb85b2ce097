// What `verify --break` spoils on purpose, so that a test can show that verify
// sees it. Only in --config=testing.
#ifndef PIPEWORK_DAEMON_EXECUTOR_BREAK_MODE_H_
#define PIPEWORK_DAEMON_EXECUTOR_BREAK_MODE_H_

#include <string>

#include "absl/status/statusor.h"

namespace pipework {

enum class BreakMode {
  kNone,
  kVersion,  // a backward reads the newest weights, not those of its forward
  kLabel,    // the loss sees the labels of another minibatch
  kScale,    // a gradient is divided by its samples twice
  kOrder,    // updates are made in another order
  kNewest,   // a forward reads the newest weights, whatever the policy says
  kStash,    // a backward reads those of its forward, whatever the policy says
};

// version, label, scale, order, newest or stash; empty is none. InvalidArgument
// lists the known ones. Unimplemented: this is not a testing build.
absl::StatusOr<BreakMode> ParseBreakMode(const std::string& name);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_BREAK_MODE_H_
