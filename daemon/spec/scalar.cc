#include "daemon/spec/scalar.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace pipework {
namespace {

void SkipDigits(absl::string_view* text) {
  while (!text->empty() && absl::ascii_isdigit(text->front())) {
    text->remove_prefix(1);
  }
}

absl::string_view WithoutSign(absl::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    text.remove_prefix(1);
  }
  return text;
}

// 017 and 00.5, but not 0 and 0.5.
bool HasLeadingZero(absl::string_view text) {
  text = WithoutSign(text);
  return text.size() > 1 && text[0] == '0' && absl::ascii_isdigit(text[1]);
}

bool IsTruthWord(absl::string_view text) {
  const std::string word = absl::AsciiStrToLower(text);
  for (const char* known : {"true", "false", "yes", "no", "on", "off"}) {
    if (word == known) return true;
  }
  return false;
}

// 0x1F, 0o17, 0b1
bool HasBasePrefix(absl::string_view text) {
  text = WithoutSign(text);
  return text.size() > 2 && text[0] == '0' &&
         (text[1] == 'x' || text[1] == 'X' || text[1] == 'o' ||
          text[1] == 'O' || text[1] == 'b' || text[1] == 'B') &&
         absl::ascii_isxdigit(text[2]);
}

// 1_000
bool HasUnderscores(absl::string_view text) {
  text = WithoutSign(text);
  if (text.empty() || !absl::ascii_isdigit(text[0])) return false;
  bool found = false;
  for (char c : text) {
    if (c == '_') {
      found = true;
    } else if (!absl::ascii_isdigit(c)) {
      return false;
    }
  }
  return found;
}

// .inf and .nan
bool IsNotFinite(absl::string_view text) {
  const std::string word = absl::AsciiStrToLower(WithoutSign(text));
  return word == ".inf" || word == ".nan";
}

std::string NumberHint(absl::string_view text) {
  if (HasLeadingZero(text)) return "write it without leading zeros";
  if (HasBasePrefix(text)) return "write it in decimal";
  if (HasUnderscores(text)) return "write it without underscores";
  return "";
}

}  // namespace

bool LooksWhole(absl::string_view text) {
  text = WithoutSign(text);
  if (text.empty()) return false;
  SkipDigits(&text);
  return text.empty();
}

bool LooksReal(absl::string_view text) {
  text = WithoutSign(text);
  const size_t all = text.size();
  SkipDigits(&text);
  size_t digits = all - text.size();
  const bool has_point = absl::ConsumePrefix(&text, ".");
  const size_t before = text.size();
  SkipDigits(&text);
  digits += before - text.size();
  if (digits == 0) return false;
  if (text.empty()) return has_point;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  return LooksWhole(text);
}

bool LooksAmbiguous(absl::string_view text) {
  if (IsTruthWord(text)) return text != "true" && text != "false";
  if (HasBasePrefix(text) || HasUnderscores(text)) return true;
  if ((LooksWhole(text) || LooksReal(text)) && HasLeadingZero(text)) {
    return true;
  }
  return IsNotFinite(text);
}

std::string AmbiguityHint(absl::string_view text) {
  if (IsTruthWord(text)) return "write true or false, or quote the word";
  const std::string hint = NumberHint(text);
  return hint.empty() ? "quote it if it is a word" : hint;
}

bool ParseWhole(absl::string_view text, int64_t* value, ScalarError* error) {
  error->expected = "a whole number";
  error->hint = NumberHint(text);
  if (!LooksWhole(text) || HasLeadingZero(text)) {
    double real = 0;
    if (LooksReal(text) && absl::SimpleAtod(text, &real) &&
        real == std::floor(real) && std::fabs(real) < 1e15) {
      error->hint = absl::StrCat("write ", static_cast<int64_t>(real));
    }
    return false;
  }
  if (!absl::SimpleAtoi(text, value)) {
    error->expected = "a whole number from -2^63 to below 2^63";
    return false;
  }
  return true;
}

bool ParseReal(absl::string_view text, double* value, ScalarError* error) {
  error->expected = "a number";
  error->hint = NumberHint(text);
  if ((!LooksWhole(text) && !LooksReal(text)) || HasLeadingZero(text)) {
    if (IsNotFinite(text)) error->expected = "a finite number";
    return false;
  }
  absl::ConsumePrefix(&text, "+");
  const absl::from_chars_result result =
      absl::from_chars(text.data(), text.data() + text.size(), *value);
  if (result.ec == std::errc::result_out_of_range) {
    error->expected = std::fabs(*value) > 1
                          ? "a number of at most 1.8e308"
                          : "a number that is not so close to 0";
    return false;
  }
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool ParseTruth(absl::string_view text, bool* value, ScalarError* error) {
  *value = text == "true";
  error->expected = "true or false";
  error->hint.clear();
  return text == "true" || text == "false";
}

std::string RealText(double value) {
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  std::string out = text;
  if (LooksWhole(out)) out += ".0";
  return out;
}

}  // namespace pipework
