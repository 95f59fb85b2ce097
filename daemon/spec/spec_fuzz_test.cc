// Any bytes as a job spec: problems, or a spec whose YAML form reads back as
// the same.
#include <cstdlib>
#include <string>

#include "daemon/spec/spec.h"
#include "google/protobuf/util/message_differencer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const pipework::ParsedSpec parsed =
      pipework::ParseSpec(text, "fuzz.yaml", {});
  for (const auto& problem : parsed.problems) {
    if (pipework::FormatProblem(problem).empty()) std::abort();
  }
  // The first line as --set on an empty spec.
  pipework::ParseSpec("name: a", "fuzz.yaml",
                      {text.substr(0, text.find('\n'))});
  if (!parsed.problems.empty()) return 0;
  if (!pipework::CheckSpec(parsed.spec).empty()) std::abort();
  const pipework::ParsedSpec again =
      pipework::ParseSpec(pipework::SpecToYaml(parsed.spec), "again.yaml", {});
  if (!again.problems.empty() ||
      !google::protobuf::util::MessageDifferencer::Equals(parsed.spec,
                                                          again.spec)) {
    std::abort();
  }
  return 0;
}
