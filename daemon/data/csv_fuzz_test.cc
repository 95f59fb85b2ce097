// Any bytes as a table: an error, or as many values as rows times columns.
#include <cmath>
#include <cstdlib>

#include "daemon/data/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto source = pipework::MemorySource(
      "fuzz", std::string(reinterpret_cast<const char*>(data), size));
  const auto table = pipework::ReadCsv(*source, "y");
  if (!table.ok()) return 0;
  if (table->values.size() != table->columns.size() * table->labels.size() ||
      table->lines.size() != table->labels.size()) {
    std::abort();
  }
  for (float value : table->values) {
    if (!std::isfinite(value)) std::abort();
  }
  return 0;
}
