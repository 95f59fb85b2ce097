// Whatever bytes a file has, the reader gives a header whose tensors lie one
// after another in the file, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "daemon/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto header = pipework::ParseSafetensors(bytes, static_cast<int64_t>(size));
  if (!header.ok()) {
    if (header.status().message().empty()) std::abort();
    return 0;
  }
  int64_t at = 0;
  for (const pipework::SafetensorsEntry& entry : header->entries) {
    if (entry.begin != at || entry.end < entry.begin) std::abort();
    at = entry.end;
  }
  if (header->data_begin + at != static_cast<int64_t>(size)) std::abort();
  // What was read can be written, and is the same again.
  auto entries = header->entries;
  const auto front = pipework::FormatSafetensors(&entries, header->metadata);
  if (!front.ok()) std::abort();
  const auto again = pipework::ParseSafetensors(
      *front, static_cast<int64_t>(front->size()) + at);
  if (!again.ok() || again->entries.size() != entries.size()) std::abort();
  return 0;
}
