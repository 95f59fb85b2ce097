// A test case that cannot run here ends with SKIP_BECAUSE(reason): it prints
// "SKIPPED: <test>: <reason>", and tools/check counts and lists it apart.
// Use it in the body of a TEST_CASE, before anything has failed.
#pragma once

#include <string>

namespace pipework {
namespace testing {

// Prints the line and remembers the reason for the test report.
void RecordSkip(const std::string& reason);

}  // namespace testing
}  // namespace pipework

#define SKIP_BECAUSE(reason)                 \
  do {                                       \
    ::pipework::testing::RecordSkip(reason); \
    return;                                  \
  } while (false)
