// An array of numbers inside a data file: where it lies and how to read it.
#ifndef PIPEWORK_DAEMON_DATA_ARRAY_H_
#define PIPEWORK_DAEMON_DATA_ARRAY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/data/byte_source.h"

namespace pipework {

enum class ElementType { kU1, kI1, kU2, kI2, kI4, kI8, kF4, kF8 };

int ElementBytes(ElementType type);
// u1, i1, ..., f8.
const char* ElementName(ElementType type);
bool IsReal(ElementType type);

struct Array {
  std::shared_ptr<const ByteSource> source;
  int64_t offset = 0;  // of the first element
  ElementType type = ElementType::kU1;
  bool big_endian = false;
  std::vector<int64_t> dims;  // the first one counts the samples

  int64_t elements() const;

  // Writes elements [first, first + into.size()) as doubles, through a buffer
  // of fixed size. (An i8 beyond 2^53 is rounded.)
  absl::Status Read(int64_t first, absl::Span<double> into) const;
  // Where element `i` lies.
  int64_t OffsetOf(int64_t i) const { return offset + i * ElementBytes(type); }
};

// The product of `dims` if it is at most `most`; -1 otherwise, also for a
// negative dimension.
int64_t ElementsUpTo(absl::Span<const int64_t> dims, int64_t most);

// (3, 28, 28)
std::string DimsText(absl::Span<const int64_t> dims);

// The array of `dims` that fills `source` from `offset` to its end.
// InvalidArgument: the rest of the source is shorter or longer than that; the
// file is cut off, or something was appended.
absl::StatusOr<Array> ArrayToEnd(std::shared_ptr<const ByteSource> source,
                                 int64_t offset, ElementType type,
                                 bool big_endian, std::vector<int64_t> dims);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_ARRAY_H_
