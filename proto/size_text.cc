#include "proto/size_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/errors.h"

namespace pipework {
namespace {

struct Unit {
  absl::string_view suffix;
  double bytes;
};

// The last one is that of a bare number.
constexpr Unit kUnits[] = {
    {"KiB", 1024},
    {"MiB", 1024. * 1024},
    {"GiB", 1024. * 1024 * 1024},
    {"TiB", 1024. * 1024 * 1024 * 1024},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"B", 1},
    {"", 1},
};

}  // namespace

absl::StatusOr<int64_t> ParseSize(absl::string_view flag,
                                  absl::string_view text) {
  absl::string_view number = text;
  double bytes = 0;
  for (const Unit& unit : kUnits) {
    if (!absl::ConsumeSuffix(&number, unit.suffix)) continue;
    double value = 0;
    if (absl::SimpleAtod(absl::StripAsciiWhitespace(number), &value)) {
      bytes = value * unit.bytes;
    }
    break;
  }
  if (!(bytes >= 1 && bytes <= 1e18)) {
    return Mismatch(flag, "size", absl::StrCat("\"", text, "\""),
                    "a number with a unit", "such as 512MiB or 4GB");
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace pipework
