// Sizes as people write them.
#ifndef PIPEWORK_PROTO_SIZE_TEXT_H_
#define PIPEWORK_PROTO_SIZE_TEXT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pipework {

// Bytes of "512MiB", "4GB", "1.5 KiB", "8e9". `flag` is for the error.
// InvalidArgument: anything else, or not 1 to 1e18 bytes.
absl::StatusOr<int64_t> ParseSize(absl::string_view flag,
                                  absl::string_view text);

}  // namespace pipework

#endif  // PIPEWORK_PROTO_SIZE_TEXT_H_
