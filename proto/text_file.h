// Messages as readable text files.
#ifndef PIPEWORK_PROTO_TEXT_FILE_H_
#define PIPEWORK_PROTO_TEXT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace pipework {

constexpr int64_t kMostTextFileBytes = 64 << 20;

// NotFound: no such file, or it cannot be read. InvalidArgument: not such a
// message; names file, line and column of the first problem; or larger than
// kMostTextFileBytes.
absl::Status ReadTextFile(const std::string& path,
                          google::protobuf::Message* message);

// Of text that is already read; `source` is what errors call it.
// InvalidArgument as above, without the limit.
absl::Status ParseText(const std::string& text, const std::string& source,
                       google::protobuf::Message* message);

// Through a temporary name; Unavailable names file and cause.
absl::Status WriteTextFile(const std::string& path,
                           const google::protobuf::Message& message);

}  // namespace pipework

#endif  // PIPEWORK_PROTO_TEXT_FILE_H_
