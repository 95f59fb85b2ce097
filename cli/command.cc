#include "cli/command.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/errors.h"

namespace pipework {

bool Invocation::Has(absl::string_view flag) const {
  return flags.count(std::string(flag)) > 0;
}

std::string Invocation::Get(absl::string_view flag,
                            absl::string_view fallback) const {
  const auto found = flags.find(std::string(flag));
  return found == flags.end() || found->second.empty() ? std::string(fallback)
                                                       : found->second.back();
}

std::vector<std::string> Invocation::All(absl::string_view flag) const {
  const auto found = flags.find(std::string(flag));
  return found == flags.end() ? std::vector<std::string>() : found->second;
}

absl::Status Invocation::GetInt(absl::string_view flag, int64_t min,
                                int64_t* value) const {
  if (!Has(flag)) return absl::OkStatus();
  int64_t number = 0;
  if (!absl::SimpleAtoi(Get(flag), &number) || number < min) {
    return Mismatch(absl::StrCat("--", flag), "value",
                    absl::StrCat("\"", Get(flag), "\""),
                    absl::StrCat("a whole number of at least ", min));
  }
  *value = number;
  return absl::OkStatus();
}

absl::Status Invocation::GetSeconds(absl::string_view flag,
                                    double* seconds) const {
  if (!Has(flag)) return absl::OkStatus();
  const std::string text = Get(flag);
  absl::string_view number = text;
  double unit = 1;
  if (absl::ConsumeSuffix(&number, "ms")) {
    unit = 0.001;
  } else if (absl::ConsumeSuffix(&number, "s")) {
    unit = 1;
  } else if (absl::ConsumeSuffix(&number, "m")) {
    unit = 60;
  } else if (absl::ConsumeSuffix(&number, "h")) {
    unit = 3600;
  }
  double value = 0;
  // The comparison is false for NaN too.
  if (!absl::SimpleAtod(number, &value) || !(value >= 0 && value < 1e9)) {
    return Mismatch(absl::StrCat("--", flag), "value",
                    absl::StrCat("\"", text, "\""),
                    "a duration such as 90s, 15m or 2h");
  }
  *seconds = value * unit;
  return absl::OkStatus();
}

}  // namespace pipework
