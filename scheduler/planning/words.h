// Words of the sentences that users read.
#ifndef PIPEWORK_SCHEDULER_PLANNING_WORDS_H_
#define PIPEWORK_SCHEDULER_PLANNING_WORDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pipework {

// "1 stage", "2 stages".
inline std::string CountText(int64_t n, absl::string_view noun,
                             absl::string_view ending = "s") {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : ending);
}

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PLANNING_WORDS_H_
