// Unpacks deflate streams (zlib) without trusting what they claim.
#ifndef PIPEWORK_DAEMON_DATA_INFLATE_H_
#define PIPEWORK_DAEMON_DATA_INFLATE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/data/byte_source.h"

namespace pipework {

enum class InflateFormat {
  kRaw,   // what a zip archive holds
  kGzip,  // a .gz file; several members in a row are one stream
};

// Deflate cannot pack better than this: a larger claim is a lie.
constexpr int64_t kMostBytesPerPackedByte = 1032;
// Unpacked data is held in memory, so it has a limit of its own.
constexpr int64_t kMostInflatedBytes = int64_t{8} << 30;

struct Inflated {
  std::string bytes;
  bool ended = false;  // false: `limit` bytes came first
};

// Unpacks [offset, offset + packed) of `source`, at most `limit` bytes. Memory
// grows with what really comes, never with a claim.
// InvalidArgument names the source and the packed byte: damaged, cut off, or
// followed by something else.
absl::StatusOr<Inflated> Inflate(const ByteSource& source, int64_t offset,
                                 int64_t packed, InflateFormat format,
                                 int64_t limit);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_INFLATE_H_
