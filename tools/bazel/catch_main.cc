// The main of every test program: Catch2's own, and a listener that writes the
// JUnit report Bazel asks for, so that test cases can be counted.
//
//   XML_OUTPUT_FILE        where the report goes; Bazel sets it
//   TESTBRIDGE_TEST_ONLY   a Catch2 test spec; `bazel test --test_filter=...`
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tools/bazel/skip.h"

namespace pipework {
namespace testing {
namespace {

struct Result {
  std::string name;
  double seconds = 0;
  bool failed = false;
  bool skipped = false;
  std::string details;
};

// The test case that runs now; Catch2 runs one at a time, on one thread.
Result g_current;

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML 1.0 has no way to write the other control characters.
        out += (static_cast<unsigned char>(c) < 0x20 && c != '\n') ? '?' : c;
    }
  }
  return out;
}

class JunitListener : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    g_current = Result();
    g_current.name = info.name;
    timer_.start();
  }

  bool assertionEnded(const Catch::AssertionStats& stats) override {
    const Catch::AssertionResult& result = stats.assertionResult;
    if (!result.isOk()) {
      const Catch::SourceLineInfo where = result.getSourceInfo();
      g_current.details += std::string(where.file) + ":" +
                           std::to_string(where.line) + ": " +
                           result.getExpressionInMacro() + "\n";
    }
    return true;
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    g_current.seconds = timer_.getElapsedSeconds();
    g_current.failed =
        !stats.totals.assertions.allOk() && !stats.testInfo.okToFail();
    results_.push_back(g_current);
  }

  void testRunEnded(const Catch::TestRunStats&) override {
    const char* path = std::getenv("XML_OUTPUT_FILE");
    if (path == nullptr) return;
    int failures = 0;
    int skipped = 0;
    for (const Result& r : results_) {
      failures += r.failed;
      skipped += r.skipped && !r.failed;
    }
    std::ofstream out(path);
    out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
        << "<testsuite name=\"catch2\" tests=\"" << results_.size()
        << "\" failures=\"" << failures << "\" skipped=\"" << skipped
        << "\">\n";
    for (const Result& r : results_) {
      out << "<testcase name=\"" << Escaped(r.name) << "\" time=\"" << r.seconds
          << "\">";
      if (r.failed) {
        out << "<failure message=\"\">" << Escaped(r.details) << "</failure>";
      } else if (r.skipped) {
        out << "<skipped message=\"" << Escaped(r.details) << "\"/>";
      }
      out << "</testcase>\n";
    }
    out << "</testsuite>\n</testsuites>\n";
  }

 private:
  Catch::Timer timer_;
  std::vector<Result> results_;
};

CATCH_REGISTER_LISTENER(JunitListener)

}  // namespace

void RecordSkip(const std::string& reason) {
  g_current.skipped = true;
  g_current.details = reason;
  std::cout << "SKIPPED: " << g_current.name << ": " << reason << std::endl;
}

}  // namespace testing
}  // namespace pipework

int main(int argc, char** argv) {
  Catch::Session session;
  const int bad_flags = session.applyCommandLine(argc, argv);
  if (bad_flags != 0) return bad_flags;
  if (const char* only = std::getenv("TESTBRIDGE_TEST_ONLY")) {
    session.configData().testsOrTags.push_back(only);
  }
  // Catch2 returns the number of failures, which wraps at 256.
  return session.run() == 0 ? 0 : 1;
}
