// Protobuf messages as the JSON that scripts rely on: snake_case keys,
// "kind" and "api_version" first, integers as numbers, NaN and infinity as
// null, defaults printed, enums by name.
#ifndef PIPEWORK_CLI_JSON_PRINTER_H_
#define PIPEWORK_CLI_JSON_PRINTER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace pipework {

constexpr char kApiVersion[] = "pipework.v1";

struct JsonOptions {
  bool pretty = true;
  // Message fields that are unset are left out unless true.
  bool empty_messages = false;
};

// `kind` empty: no kind and api_version.
std::string ToJson(const google::protobuf::Message& message,
                   absl::string_view kind, const JsonOptions& options = {});

// "text" with quotes and escapes; bytes that are no UTF-8 become U+FFFD.
std::string JsonString(absl::string_view text);
// A number, or null for NaN and infinity.
std::string JsonNumber(double value);

}  // namespace pipework

#endif  // PIPEWORK_CLI_JSON_PRINTER_H_
