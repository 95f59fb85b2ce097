#include "daemon/spec/problems.h"

namespace pipework {

void Problems::AddStatus(std::string field, const absl::Status& status) {
  absl::string_view text = status.message();
  const size_t is = text.find(" is ");
  const size_t expected = text.find(", expected ");
  if (is == absl::string_view::npos || expected == absl::string_view::npos ||
      expected < is) {
    Add(std::move(field), std::string(text), "");
    return;
  }
  // Where the field does not say what is wrong with it, the message does.
  const absl::string_view about = text.substr(0, is);
  const size_t colon = about.rfind(": ");
  const absl::string_view what =
      colon == absl::string_view::npos ? about : about.substr(colon + 2);
  std::string got(text.substr(is + 4, expected - is - 4));
  if (!absl::EndsWith(field, absl::StrCat(".", what))) {
    got = absl::StrCat(about, " is ", got);
  }
  absl::string_view wanted = text.substr(expected + 11);
  absl::string_view hint;
  const size_t semicolon = wanted.find("; ");
  if (semicolon != absl::string_view::npos) {
    hint = wanted.substr(semicolon + 2);
    wanted = wanted.substr(0, semicolon);
  }
  Add(std::move(field), got, std::string(wanted), std::string(hint));
}

bool Problems::IsSpoilt(absl::string_view field) const {
  if (IsFull()) return true;
  if (spoilt_.empty()) return false;
  // Around it: a.b[2].c, then a.b[2], a.b, a and the whole spec.
  std::string outer(field);
  while (true) {
    if (spoilt_.count(outer) > 0) return true;
    if (outer.empty()) break;
    const size_t cut = outer.find_last_of(".[");
    outer.resize(cut == std::string::npos ? 0 : cut);
  }
  // Within it.
  for (const char* next : {".", "["}) {
    const std::string inner = absl::StrCat(field, field.empty() ? "" : next);
    const auto found = spoilt_.lower_bound(inner);
    if (found != spoilt_.end() && absl::StartsWith(*found, inner)) return true;
  }
  return false;
}

}  // namespace pipework
