// Any bytes as the text of a profile: refused, or it describes a graph whose
// cuts can be counted.
#include <cstdlib>

#include "partitioner/profile.h"
#include "proto/text_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pipework::v1::Profile profile;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!pipework::ParseText(text, "fuzz", &profile).ok()) return 0;
  const bool good = pipework::CheckProfile(profile).ok();
  const auto graph = pipework::GraphOfProfile(profile);
  if (graph.ok() != good) std::abort();
  if (!good) return 0;
  const auto chain = pipework::MakeChain(*graph, profile, 0.5);
  if (!chain.ok()) std::abort();
  for (const int64_t bytes : chain->cut_bytes) {
    if (bytes < 0) std::abort();
  }
  return 0;
}
