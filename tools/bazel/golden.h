// Golden files: expected output that lies in the tree, so that a change of it
// is read in the diff. Only tools/regen writes them.
#pragma once

#include <string>

namespace pipework {
namespace testing {

// Compares `actual` with the file at `path` (from the workspace root; list it
// in the test's `data`). Returns "" when they are equal, else a message that
// names the file and shows the first line that differs:
//   CHECK(GoldenMismatch("testdata/schedules/1f1b_4x6.golden", rows) == "");
// With PIPEWORK_REGEN=1 it writes the file instead and returns "".
std::string GoldenMismatch(const std::string& path, const std::string& actual);

}  // namespace testing
}  // namespace pipework
