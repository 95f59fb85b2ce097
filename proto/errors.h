// The one form of an error message:
//   <who>: <what> is <got>, expected <wanted>; <what to do>
#ifndef PIPEWORK_PROTO_ERRORS_H_
#define PIPEWORK_PROTO_ERRORS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pipework {

// The text alone; the remedy may be empty.
inline std::string MismatchText(absl::string_view who, absl::string_view what,
                                absl::string_view got, absl::string_view wanted,
                                absl::string_view remedy = "") {
  return absl::StrCat(who, ": ", what, " is ", got, ", expected ", wanted,
                      remedy.empty() ? "" : "; ", remedy);
}

inline absl::Status Mismatch(absl::string_view who, absl::string_view what,
                             absl::string_view got, absl::string_view wanted,
                             absl::string_view remedy = "") {
  return absl::InvalidArgumentError(
      MismatchText(who, what, got, wanted, remedy));
}

// `status` with "<who>: " before its message; its code and payloads stay.
inline absl::Status WithContext(absl::string_view who,
                                const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status out(status.code(), absl::StrCat(who, ": ", status.message()));
  status.ForEachPayload(
      [&out](absl::string_view url, const absl::Cord& payload) {
        out.SetPayload(url, payload);
      });
  return out;
}

}  // namespace pipework

#endif  // PIPEWORK_PROTO_ERRORS_H_
