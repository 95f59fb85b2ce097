#include "daemon/data/array.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/check.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int64_t kBlock = 4096;  // elements

template <typename T>
void Decode(char* raw, int64_t n, bool big_endian, double* out) {
  for (int64_t i = 0; i < n; ++i, raw += sizeof(T)) {
    if (big_endian) std::reverse(raw, raw + sizeof(T));
    T value;
    std::memcpy(&value, raw, sizeof(T));
    out[i] = static_cast<double>(value);
  }
}

void DecodeBlock(ElementType type, char* raw, int64_t n, bool big_endian,
                 double* out) {
  switch (type) {
    case ElementType::kU1:
      return Decode<uint8_t>(raw, n, big_endian, out);
    case ElementType::kI1:
      return Decode<int8_t>(raw, n, big_endian, out);
    case ElementType::kU2:
      return Decode<uint16_t>(raw, n, big_endian, out);
    case ElementType::kI2:
      return Decode<int16_t>(raw, n, big_endian, out);
    case ElementType::kI4:
      return Decode<int32_t>(raw, n, big_endian, out);
    case ElementType::kI8:
      return Decode<int64_t>(raw, n, big_endian, out);
    case ElementType::kF4:
      return Decode<float>(raw, n, big_endian, out);
    case ElementType::kF8:
      return Decode<double>(raw, n, big_endian, out);
  }
}

}  // namespace

int ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kU1:
    case ElementType::kI1:
      return 1;
    case ElementType::kU2:
    case ElementType::kI2:
      return 2;
    case ElementType::kI4:
    case ElementType::kF4:
      return 4;
    case ElementType::kI8:
    case ElementType::kF8:
      return 8;
  }
  return 1;
}

const char* ElementName(ElementType type) {
  switch (type) {
    case ElementType::kU1:
      return "u1";
    case ElementType::kI1:
      return "i1";
    case ElementType::kU2:
      return "u2";
    case ElementType::kI2:
      return "i2";
    case ElementType::kI4:
      return "i4";
    case ElementType::kI8:
      return "i8";
    case ElementType::kF4:
      return "f4";
    case ElementType::kF8:
      return "f8";
  }
  return "?";
}

bool IsReal(ElementType type) {
  return type == ElementType::kF4 || type == ElementType::kF8;
}

int64_t Array::elements() const {
  return ElementsUpTo(dims, std::numeric_limits<int64_t>::max());
}

absl::Status Array::Read(int64_t first, absl::Span<double> into) const {
  const int64_t size = ElementBytes(type);
  char raw[kBlock * 8];
  for (int64_t done = 0; done < static_cast<int64_t>(into.size());) {
    const int64_t n =
        std::min(kBlock, static_cast<int64_t>(into.size()) - done);
    RETURN_IF_ERROR(
        source->Read(OffsetOf(first + done), absl::MakeSpan(raw, n * size)));
    DecodeBlock(type, raw, n, big_endian, into.data() + done);
    done += n;
  }
  return absl::OkStatus();
}

int64_t ElementsUpTo(absl::Span<const int64_t> dims, int64_t most) {
  for (int64_t dim : dims) {
    if (dim < 0) return -1;
  }
  if (std::count(dims.begin(), dims.end(), 0) > 0) return 0;
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (__builtin_mul_overflow(product, dim, &product)) return -1;
  }
  return product <= most ? product : -1;
}

std::string DimsText(absl::Span<const int64_t> dims) {
  return absl::StrCat("(", absl::StrJoin(dims, ", "), ")");
}

absl::StatusOr<Array> ArrayToEnd(std::shared_ptr<const ByteSource> source,
                                 int64_t offset, ElementType type,
                                 bool big_endian, std::vector<int64_t> dims) {
  PIPE_CHECK(offset >= 0 && offset <= source->size());
  const int64_t rest = source->size() - offset;
  const int64_t size = ElementBytes(type);
  const std::string claim =
      absl::StrCat("array ", DimsText(dims), " of ", ElementName(type));
  const int64_t elements = ElementsUpTo(dims, rest / size);
  if (elements < 0) {
    return ErrorAt(source->name(), source->size(), absl::StrCat("the ", claim),
                   absl::StrCat("cut off after ", rest, " bytes"),
                   "all of its bytes", "fetch or make the file again");
  }
  if (elements * size != rest) {
    return ErrorAt(source->name(), offset + elements * size,
                   absl::StrCat("what follows the ", claim),
                   absl::StrCat(rest - elements * size, " bytes"),
                   "the end of the file", "the header and the data disagree");
  }
  Array array;
  array.source = std::move(source);
  array.offset = offset;
  array.type = type;
  array.big_endian = big_endian;
  array.dims = std::move(dims);
  return array;
}

}  // namespace pipework
