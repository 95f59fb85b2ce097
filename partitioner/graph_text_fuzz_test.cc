// Any bytes as graph.txt: an error on one line, or a profile that describes a
// graph.
#include <cstdlib>

#include "partitioner/graph_text.h"
#include "partitioner/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& profile : {pipework::ParseGraphText(text, "fuzz"),
                              pipework::ParseProfile(text, "fuzz")}) {
    if (!profile.ok()) {
      if (profile.status().message().find('\n') != absl::string_view::npos) {
        std::abort();
      }
      continue;
    }
    const auto graph = pipework::GraphOfProfile(*profile);
    if (!graph.ok()) std::abort();
    if (!pipework::MakeChain(*graph, *profile, 1).ok()) std::abort();
  }
  return 0;
}
