// Every build but --config=testing: nothing goes wrong on purpose.
#include "daemon/base/failpoint.h"

namespace pipework {

absl::Status Failpoint(const char* name) { return absl::OkStatus(); }

absl::Status SetFailpoints(const std::string& spec) {
  return absl::UnimplementedError(
      "failpoints: this binary has none; rebuild with --config=testing");
}

int64_t FailpointHits(const std::string& name) { return 0; }

}  // namespace pipework
