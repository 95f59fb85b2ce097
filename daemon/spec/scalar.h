// Words and numbers as a spec writes them.
//
// YAML's own rules have surprises (017 is 15, no is false, 1_000 is 1000);
// here a number is decimal, a truth value is true or false, and what looks
// like something else is refused with what to write instead.
#ifndef PIPEWORK_DAEMON_SPEC_SCALAR_H_
#define PIPEWORK_DAEMON_SPEC_SCALAR_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace pipework {

struct ScalarError {
  std::string expected;
  std::string hint;
};

// Each returns whether `text` is such a value; if not, `error` says what is
// expected.
bool ParseWhole(absl::string_view text, int64_t* value, ScalarError* error);
bool ParseReal(absl::string_view text, double* value, ScalarError* error);
bool ParseTruth(absl::string_view text, bool* value, ScalarError* error);

// Decimal digits with an optional sign: a whole number, whatever its size.
bool LooksWhole(absl::string_view text);
// Digits with a point or an exponent.
bool LooksReal(absl::string_view text);
// 017, 0x1F, 0o17, 1_000, .inf, .nan, yes, No, TRUE, ...: what YAML readers
// take for a number or a truth value, each in its own way.
bool LooksAmbiguous(absl::string_view text);

// What to write instead. REQUIRES: LooksAmbiguous(text).
std::string AmbiguityHint(absl::string_view text);

// The shortest decimal text that reads back as `value`, with a point or an
// exponent. REQUIRES: value is finite.
std::string RealText(double value);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_SCALAR_H_
