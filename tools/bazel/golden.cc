#include "tools/bazel/golden.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace pipework {
namespace testing {

std::string GoldenMismatch(const std::string& path, const std::string& actual) {
  const char* regen = std::getenv("PIPEWORK_REGEN");
  if (regen != nullptr && std::string(regen) == "1") {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << actual;
    out.close();
    return out ? "" : path + ": cannot be written";
  }

  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return path + ": is missing; list it in the test's data, and run " +
           "tools/regen if it is new";
  }
  const std::string wanted((std::istreambuf_iterator<char>(in)),
                           std::istreambuf_iterator<char>());
  if (wanted == actual) return "";

  std::istringstream wanted_lines(wanted);
  std::istringstream actual_lines(actual);
  std::string w;
  std::string a;
  for (int line = 1;; ++line) {
    const bool more_w = static_cast<bool>(std::getline(wanted_lines, w));
    const bool more_a = static_cast<bool>(std::getline(actual_lines, a));
    if (more_w && more_a && w == a) continue;
    if (!more_w && !more_a) {
      return path + ": differs only in the newline at its end";
    }
    return path + ":" + std::to_string(line) + ": expected\n    " +
           (more_w ? w : "(end of file)") + "\ngot\n    " +
           (more_a ? a : "(end of file)") +
           "\nif the change is wanted, run tools/regen";
  }
}

}  // namespace testing
}  // namespace pipework
