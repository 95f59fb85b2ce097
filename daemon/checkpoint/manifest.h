// The manifest of a checkpoint as a file: text protobuf, and a last line with
// the hash of everything before it.
#ifndef PIPEWORK_DAEMON_CHECKPOINT_MANIFEST_H_
#define PIPEWORK_DAEMON_CHECKPOINT_MANIFEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/checkpoint.pb.h"

namespace pipework {

constexpr char kManifestFile[] = "manifest.textproto";
constexpr int kFormatVersion = 1;

// Whether `name` may be a file of a checkpoint: a plain name, no path.
bool IsShardName(absl::string_view name);

// InvalidArgument: a field that cannot be. `who` opens the message.
absl::Status CheckManifest(absl::string_view who, const v1::Manifest& manifest);

std::string FormatManifest(const v1::Manifest& manifest);

// DataLoss: cut off, changed since it was written, or with an impossible
// field. FailedPrecondition: of a newer format. `who` opens the message.
absl::StatusOr<v1::Manifest> ParseManifest(absl::string_view who,
                                           const std::string& text);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_CHECKPOINT_MANIFEST_H_
