// Any bytes as an IDX file, plain and packed: an error or an array.
#include <cstdlib>
#include <vector>

#include "daemon/data/idx.h"

namespace pipework {
namespace {

void ReadEverything(const absl::StatusOr<Array>& array) {
  if (!array.ok()) return;
  if (array->elements() < 0) std::abort();
  std::vector<double> values(static_cast<size_t>(array->elements()));
  if (!array->Read(0, absl::MakeSpan(values)).ok()) std::abort();
}

}  // namespace
}  // namespace pipework

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto source = pipework::MemorySource(
      "fuzz", std::string(reinterpret_cast<const char*>(data), size));
  pipework::ReadEverything(pipework::ReadIdx(source));
  pipework::ReadEverything(pipework::ReadIdxGz(source));
  return 0;
}
